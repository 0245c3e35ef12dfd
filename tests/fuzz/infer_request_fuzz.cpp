// Requests for inference: JSON alone, or, behind a 'B' and two bytes of its length, JSON with tensors as bytes.
#include "tests/fuzz/fuzz_target.h"
#include "tools/serve/wire_tensor.h"

namespace moka {

FuzzTarget InferRequestFuzz() {
  return {"infer_request", [](std::string_view bytes) {
            std::optional<int64_t> json_bytes;
            if (bytes.size() > 2 && bytes[0] == 'B') {
              json_bytes = static_cast<unsigned char>(bytes[1]) + 256 * static_cast<unsigned char>(bytes[2]);
              bytes.remove_prefix(3);
            }
            std::string body(bytes);
            const InferRequest request = ReadInferRequest(body, json_bytes);
            for (const WireTensor& tensor : request.inputs) {
              int64_t count = 1;
              for (const int64_t side : tensor.shape) count *= side;
              const auto held =
                  static_cast<int64_t>(tensor.datatype == "BYTES" ? tensor.texts.size() : tensor.values.size());
              const bool is_read = tensor.datatype == "FP32" || tensor.datatype == "BYTES" || !json_bytes;
              if (is_read && held != count) std::abort();
            }
          }};
}

}  // namespace moka

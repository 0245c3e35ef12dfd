// Requests for inference as gRPC carries them.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "tests/fuzz/fuzz_target.h"
#include "tools/serve/grpc/field_count.h"
#include "tools/serve/grpc/messages.h"

namespace moka {

FuzzTarget RpcRequestFuzz() {
  return {"rpc_request", [](std::string_view bytes) {
            google::protobuf::io::ArrayInputStream counted(bytes.data(), static_cast<int>(bytes.size()));
            CheckFieldCount(*inference::ModelInferRequest::descriptor(), counted);
            inference::ModelInferRequest message;
            if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
            const InferRequest request = RequestOf(message);
            InferAnswer answer{.model = "m", .version = "1", .id = request.id, .outputs = {}};
            for (const WireTensor& tensor : request.inputs) {
              int64_t count = 1;
              for (const int64_t side : tensor.shape) count *= side;
              const bool is_text = tensor.datatype == "BYTES";
              const auto held = static_cast<int64_t>(is_text ? tensor.texts.size() : tensor.values.size());
              if ((is_text || tensor.datatype == "FP32") && held != count) std::abort();
              answer.outputs.push_back({tensor.name, tensor.shape, tensor.values, tensor.texts, is_text});
            }
            // The tensors go back by either way.
            for (const bool is_raw : {false, true}) {
              inference::ModelInferResponse response;
              WriteAnswer(answer, is_raw, response);
              if (response.outputs_size() != std::ssize(request.inputs)) std::abort();
              if (response.raw_output_contents_size() != (is_raw ? response.outputs_size() : 0)) std::abort();
            }
          }};
}

}  // namespace moka

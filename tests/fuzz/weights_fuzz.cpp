// Weights in each format: every blob that comes back fills its shape.
#include "proto/weights/weights.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    const moka::Weights weights = moka::WeightsFromBytes(bytes, "weights");
    for (const moka::NamedBlob& blob : weights.blobs) {
      moka::Require(blob.shape.Count() == static_cast<int64_t>(blob.values.size()), "values fill their shape");
    }
  });
}

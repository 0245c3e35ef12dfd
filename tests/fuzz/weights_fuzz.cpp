// Weights in each format: every blob that comes back fills its shape.
#include "proto/weights/weights.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget WeightsFuzz() {
  return {"weights", [](std::string_view bytes) {
            const Weights weights = WeightsFromBytes(bytes, "weights");
            for (const NamedBlob& blob : weights.blobs) {
              Require(blob.shape.Count() == static_cast<int64_t>(blob.values.size()), "values fill their shape");
            }
          }};
}

}  // namespace moka

// A .binaryproto, as mean images and infogain matrices are kept: what comes back fills its shape.
#include "proto/content.h"
#include "proto/weights/blob_bytes.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget MeanFileFuzz() {
  return {"mean_file", [](std::string_view bytes) {
            if (Describe(RecognizeContent(bytes)).empty()) std::abort();
            const NamedBlob blob = BlobFromWire(WireReader(bytes, "mean.binaryproto", "BlobProto"), "blob");
            Require(blob.shape.Count() == static_cast<int64_t>(blob.values.size()), "values fill their shape");
          }};
}

}  // namespace moka

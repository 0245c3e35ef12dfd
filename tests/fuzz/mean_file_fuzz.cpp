// A .binaryproto, as mean images and infogain matrices are kept: what comes back fills its shape.
#include "proto/content.h"
#include "proto/weights/blob_bytes.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    if (moka::Describe(moka::RecognizeContent(bytes)).empty()) std::abort();
    const moka::NamedBlob blob = moka::BlobFromWire(moka::WireReader(bytes, "mean.binaryproto", "BlobProto"), "blob");
    moka::Require(blob.shape.Count() == static_cast<int64_t>(blob.values.size()), "values fill their shape");
  });
}

// Caffe's solver states in either format: every history blob that comes back fills its shape.
#include "optim/checkpoint/caffe_state.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    const moka::CaffeState state = moka::CaffeStateFromBytes(bytes, "state");
    for (const moka::StateTensor& tensor : state.history) {
      moka::Require(tensor.shape.Count() == static_cast<int64_t>(tensor.values.size()), "values fill their shape");
    }
  });
}

// Caffe's solver states in either format: every history blob that comes back fills its shape.
#include "optim/checkpoint/caffe_state.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget SolverStateFuzz() {
  return {"solver_state", [](std::string_view bytes) {
            const CaffeState state = CaffeStateFromBytes(bytes, "state");
            for (const StateTensor& tensor : state.history) {
              Require(tensor.shape.Count() == static_cast<int64_t>(tensor.values.size()), "values fill their shape");
            }
          }};
}

}  // namespace moka

// A checkpoint's solver state. The first byte says what the rest is: a whole state file (whose checksums stop most of
// what a fuzzer makes), a tensor's section, or the trainer's JSON.
#include "optim/checkpoint/state_file.h"
#include "optim/checkpoint/trainer_state.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {

FuzzTarget CheckpointFuzz() {
  return {"checkpoint", [](std::string_view bytes) {
            if (bytes.empty()) return;
            const char what = bytes.front();
            bytes.remove_prefix(1);
            if (what == 't') {
              const StateTensor tensor = TensorOf({"slot", bytes}, "x.state");
              Require(tensor.shape.Count() == static_cast<int64_t>(tensor.values.size()), "values fill their shape");
            } else if (what == 'j') {
              const TrainerState state = TrainerStateFromJson(bytes, "x.state");
              Require(state.iteration >= 0, "iterations are counted from 0");
            } else {
              for (const StateSection& section : ReadState(bytes, "x.state")) {
                if (section.name.starts_with("slot/")) TensorOf(section, "x.state");
              }
            }
          }};
}

}  // namespace moka

// A checkpoint's solver state. The first byte says what the rest is: a whole state file (whose checksums stop most of
// what a fuzzer makes), a tensor's section, or the trainer's JSON.
#include "optim/checkpoint/state_file.h"
#include "optim/checkpoint/trainer_state.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view bytes) {
    if (bytes.empty()) return;
    const char what = bytes.front();
    bytes.remove_prefix(1);
    if (what == 't') {
      const moka::StateTensor tensor = moka::TensorOf({"slot", bytes}, "x.state");
      moka::Require(tensor.shape.Count() == static_cast<int64_t>(tensor.values.size()), "values fill their shape");
    } else if (what == 'j') {
      const moka::TrainerState state = moka::TrainerStateFromJson(bytes, "x.state");
      moka::Require(state.iteration >= 0, "iterations are counted from 0");
    } else {
      for (const moka::StateSection& section : moka::ReadState(bytes, "x.state")) {
        if (section.name.starts_with("slot/")) moka::TensorOf(section, "x.state");
      }
    }
  });
}

// The records of a run that others read back. The first byte says which: metrics, status, a rank's state, scaling.
#include <memory>

#include "optim/ranks/rank_states.h"
#include "optim/run/run_folder.h"
#include "optim/run/scaling_baseline.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    static moka::InputFile metrics("metrics.jsonl");
    static moka::InputFile status("status.json");
    static moka::InputFile rank("ranks/rank-0.json");
    static moka::InputFile scaling(moka::kScalingFile);
    if (text.empty()) return;
    const char what = text.front();
    text.remove_prefix(1);
    if (what == 'm') {
      metrics.Write(text);
      moka::ReadMetrics(metrics.folder());
    } else if (what == 's') {
      status.Write(text);
      moka::ReadProgress(status.folder());
    } else if (what == 'r') {
      rank.Write(text);
      const std::vector<moka::RankState> states = moka::ReadRankStates(rank.folder(), 0);
      moka::FindCulprit(states, 2);
      moka::IsOneWorking(states, 1, 0);
    } else {
      scaling.Write(text);
      moka::Require(moka::ReadScalingBaseline(scaling.folder()).step_s > 0, "a step takes time");
    }
  });
}

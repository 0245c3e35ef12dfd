// The records of a run that others read back. The first byte says which: metrics, status, a rank's state, scaling.
#include <memory>

#include "optim/ranks/rank_states.h"
#include "optim/run/run_folder.h"
#include "optim/run/scaling_baseline.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_file.h"

namespace moka {

FuzzTarget RunRecordFuzz() {
  return {"run_record", [](std::string_view text) {
            static InputFile metrics("metrics.jsonl");
            static InputFile status("status.json");
            static InputFile rank("ranks/rank-0.json");
            static InputFile scaling(kScalingFile);
            if (text.empty()) return;
            const char what = text.front();
            text.remove_prefix(1);
            if (what == 'm') {
              metrics.Write(text);
              ReadMetrics(metrics.folder());
            } else if (what == 's') {
              status.Write(text);
              ReadProgress(status.folder());
            } else if (what == 'r') {
              rank.Write(text);
              const std::vector<RankState> states = ReadRankStates(rank.folder(), 0);
              FindCulprit(states, 2);
              IsOneWorking(states, 1, 0);
            } else {
              scaling.Write(text);
              Require(ReadScalingBaseline(scaling.folder()).step_s > 0, "a step takes time");
            }
          }};
}

}  // namespace moka

// Where the time of a training by several ranks goes, and how well it scales: at the end of each epoch and of the
// training, for each rank and as means, an iteration's time taken apart into computing, waiting for input, exposed
// communication and waiting for ranks that were late; the rank that is late; and the efficiency, with the baseline, the
// samples a rank and the ranks that it holds for. It goes to the log, metrics.jsonl (split "scaling") and events, and
// whole, as a line of JSON, to RUN/scaling.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange/arrivals.h"
#include "comm/exchange/gradient_exchange.h"
#include "comm/transport/communicator.h"
#include "optim/ranks/batch_policy.h"
#include "optim/run/report.h"
#include "optim/run/run_folder.h"
#include "optim/run/scaling_baseline.h"
#include "optim/step/feed.h"

namespace moka {

// A rank's iteration on average: step = compute + input + exposed.
struct StepParts {
  double step_s = 0;
  double input_s = 0;    // waited for batches
  double exposed_s = 0;  // waited for communication; wait_s of it until the last rank had come
  double wait_s = 0;

  double compute_s() const { return step_s - input_s - exposed_s; }
  double transfer_s() const { return exposed_s - wait_s; }
};

struct ScalingSummary {
  int64_t iterations = 0;
  BatchPolicy batch;
  std::vector<std::string> names{};  // of ranks: "rank 2 on node7"
  std::vector<StepParts> ranks{};
  ArrivalReport arrivals{};
  std::optional<ScalingBaseline> baseline{};

  int64_t rank_batch() const { return batch.of_rank * batch.iter_size; }
  StepParts mean() const;
  // A step without exposed communication over the step: 1 where communication costs nothing.
  double efficiency() const;
  // Samples a second and rank over the baseline's. Requires: a baseline.
  double efficiency_against() const;
  // Whether the rank that is latest holds the others up: by more than 5 % of a step, more than clocks may be wrong, and
  // so steadily that it is not chance.
  bool has_slow_rank() const;
};
// A line each: efficiencies with what they are against, and who is late.
std::vector<std::string> Sentences(const ScalingSummary& summary);
// A table of the ranks with the means below, and one of arrivals if there are several buckets.
std::string ScalingTable(const ScalingSummary& summary);

class ScalingReport {
 public:
  // `world` and `exchange` may be null: one rank. All outlive it. With a world all ranks call each of these at the same
  // place of the training. Errors of all: kPeer.
  ScalingReport(Communicator* world, GradientExchange* exchange, const Feed& feed, const BatchPolicy& batch,
                std::optional<ScalingBaseline> baseline);

  // Counts from here on; `iteration` are done, which took `train_s`.
  void Start(int64_t iteration, double train_s);
  // Reports what came since Start or the last report, if anything. `run` and `report` of the ranks that have them.
  // Errors: kIo.
  void Report(const RunPoint& point, double train_s, const RunFolder* run, TrainReport& report);
  // The last report; its sentences are shown on the terminal, too.
  void End(const RunPoint& point, double train_s, const RunFolder* run, TrainReport& report);

 private:
  double InputSeconds() const;
  // The sentences of the last one go to the log with those for the person.
  void Make(const RunPoint& point, double train_s, const RunFolder* run, TrainReport& report, bool is_last);
  ScalingSummary Summarize(int64_t iterations, double train_s);

  Communicator* world_;
  GradientExchange* exchange_;
  const Feed& feed_;
  BatchPolicy batch_;
  std::optional<ScalingBaseline> baseline_;
  ClockOffset clock_;
  int64_t started_at_ = 0;
  double started_s_ = 0;
  double input_s_ = 0;                  // waited when it was started
  double exposed_s_ = 0;                // the same
  std::vector<std::string> sentences_;  // of the last report
};

}  // namespace moka

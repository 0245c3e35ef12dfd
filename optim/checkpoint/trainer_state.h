// The state beyond weights and slots that a run must remember to continue as if it had never stopped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optim/gradient_noise.h"
#include "optim/optimizers/lr_policy.h"

namespace moka {

struct TrainerState {
  int64_t iteration = 0;  // updates done
  uint64_t seed = 0;
  // Losses of the last average_loss iterations, oldest first, and the mean shown.
  std::vector<double> loss_window;
  double smoothed_loss = 0;
  // The best test so far by the ranking metric, and how many tests were not better since.
  std::optional<double> best;
  int64_t best_iteration = -1;
  int64_t tests_since_best = 0;
  // Samples each pipeline has consumed: "train/data", "test0/data".
  std::map<std::string, int64_t> positions;
  PlateauState plateau;         // lr_policy "plateau"
  int64_t skipped_updates = 0;  // iterations whose loss was not finite (on_nan: IGNORE)
  int64_t waiting_ranks = 0;    // over which the sums were made that are not in the weights yet; 0: there are none
  bool is_test_due = false;     // the test at this iteration was left before its end
  GradientNoise noise;          // noise_scale_interval
  double clock_s = 0;           // the run's clock as this was written (optim/run/run_clock.h); 0 in older checkpoints
  friend bool operator==(const TrainerState&, const TrainerState&) = default;
};

// JSON, one object. Requires: the numbers are finite.
std::string ToJson(const TrainerState& state);
// Errors: kBadData naming `where` and the field that is missing or of the wrong type.
TrainerState TrainerStateFromJson(std::string_view json, const std::string& where);

}  // namespace moka

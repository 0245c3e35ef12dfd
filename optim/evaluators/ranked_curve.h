// Precision over recall of what was ranked by score, as drawn and as one number.
#pragma once

#include <cstdint>
#include <vector>

#include "optim/evaluators/average_precision.h"

namespace moka {

struct RankedCurve {
  static constexpr int kSteps = 100;  // of recall

  // The sum of (R_n - R_(n-1)) P_n over the thresholds n that the scores give: nothing is interpolated, and equal
  // scores are one threshold, so that the order of samples makes no difference.
  double average_precision = 0;
  // At recalls 0, 0.01, .., 1 the best precision at this recall or more; 0 where no threshold reaches it.
  std::vector<double> precisions = std::vector<double>(kSteps + 1, 0.0);
};

// Sorts what it is given. `objects` are all that could be found, at least those that were. NaNs rank last. Without
// objects all is 0.
RankedCurve RankedCurveOf(std::vector<RankedDetection>& ranked, int64_t objects);

}  // namespace moka

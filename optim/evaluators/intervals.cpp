// The solutions p of |share - p| = z sqrt(p (1 - p) / n).
#include "optim/evaluators/intervals.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace moka {

ShareInterval WilsonInterval(int64_t hits, int64_t count) {
  Require(hits >= 0 && hits <= count, "a share is of no more than all");
  if (count == 0) return {};
  constexpr double kZ = 1.959963984540054;  // of 95 %, two-sided
  const auto n = static_cast<double>(count);
  const double share = static_cast<double>(hits) / n;
  const double whole = 1 + kZ * kZ / n;
  const double middle = (share + kZ * kZ / (2 * n)) / whole;
  const double half = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n)) / whole;
  // Rounding must not move the ends off 0 and 1, where they belong.
  return {hits == 0 ? 0 : std::max(0.0, middle - half), hits == count ? 1 : std::min(1.0, middle + half)};
}

}  // namespace moka

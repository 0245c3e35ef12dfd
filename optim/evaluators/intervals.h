// How sure a share is that was measured on so many samples.
#pragma once

#include <cstdint>

namespace moka {

struct ShareInterval {
  double low = 0;
  double high = 1;
};

// The interval that holds the true share in 95 of 100 such measurements: `hits` of `count` were right (Wilson,
// "Probable inference, the law of succession, and statistical inference", JASA 22, 1927). It lies in [0, 1] and says
// something at 0 and 1 too, as that of the normal distribution does not. [0, 1] without samples. Requires: 0 <= hits <=
// count.
ShareInterval WilsonInterval(int64_t hits, int64_t count);

}  // namespace moka

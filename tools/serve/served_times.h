// Where the time of an answered request went, for logs.
#pragma once

#include <cstdint>

namespace moka {

struct ServedTimes {
  int64_t rows = 0;
  double queue_ms = 0;
  double run_ms = 0;  // from the begin of its first batch to its last one's end
};

}  // namespace moka

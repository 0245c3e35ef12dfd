// Facts that the system tells of this process, for metrics.
#pragma once

#include <cstdint>

namespace moka {

struct ProcessFacts {
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  double cpu_seconds = 0;    // of all its threads, in the kernel too
  double start_seconds = 0;  // since 1970
  int64_t threads = 0;
  int64_t open_files = 0;
  int64_t most_files = 0;  // that may be open
};

// The facts of this moment; 0 for what the system does not tell. Errors: none.
ProcessFacts ProcessFactsNow();

}  // namespace moka

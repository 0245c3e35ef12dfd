// Kept in one place, as strerror is safe between threads in glibc only.
#include "core/system_reason.h"

#include <cstring>

namespace moka {

std::string SystemReason(int code) {
  return std::strerror(code);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
}

}  // namespace moka

// The time of day, which other machines know too.
#pragma once

#include <chrono>

namespace moka {

// The time now by this host's clock.
inline double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace moka

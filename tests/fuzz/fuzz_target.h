// A fuzz target: a function that returns one, in a file of its own (build rows find it, tools/cmake/moka_rows.cmake).
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace moka {

struct FuzzTarget {
  std::string_view name;                 // its seeds are in seeds/NAME
  void (*read)(std::string_view bytes);  // may return or throw Error, of any kind but kInternal
};

// Those of this program, by their functions' names: one with libFuzzer, all of them where seeds are replayed.
std::vector<FuzzTarget> FuzzTargets();

// Gives the target one input; aborts where it does what it may not. Whoever calls it says once how much is logged.
inline void ReadOneInput(const FuzzTarget& target, std::string_view bytes) {
  try {
    target.read(bytes);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
}

}  // namespace moka

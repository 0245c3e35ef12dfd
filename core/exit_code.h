// The exit code of what is no Error: what the standard library and the system throw.
#pragma once

#include <exception>

namespace moka {

// An Error's kind is its exit code. Of the rest, memory that cannot be had is kUnavailable, what the file system or the
// system refuses is kNotAllowed, kNoInput, kCantCreate or kIo by its reason, and what nobody expected is kInternal.
int ExitCodeOf(const std::exception& error);

}  // namespace moka

// The operating system's words for an error.
#pragma once

#include <cerrno>
#include <string>

namespace moka {

// "No space left on device". `code` is an errno.
std::string SystemReason(int code = errno);

}  // namespace moka

// The frame of a fuzz target: runs a reader on one input; only moka::Error may come out, and never kInternal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/log.h"

namespace moka {

template <class Reader>
int RunOneInput(const uint8_t* data, size_t size, Reader read) {
  static const bool is_quiet = [] {
    SetStderrLevel(LogLevel::kError);
    return true;
  }();
  try {
    if (is_quiet) read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}

}  // namespace moka

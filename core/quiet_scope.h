// Silence for trials that only the program itself asked for.
#pragma once

namespace moka {

// While one lives, its thread's messages (core/log.h) are dropped.
class QuietScope {
 public:
  QuietScope();
  ~QuietScope();
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;
};

// Whether one lives on this thread.
bool IsQuiet();

}  // namespace moka

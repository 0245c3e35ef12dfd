// A team of so many threads while it lives.
#pragma once

#include "core/threads/parallel.h"

namespace moka {

class Threads {
 public:
  explicit Threads(int count) : before_(ThreadCount()) { SetThreadCount(count); }
  ~Threads() { SetThreadCount(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace moka

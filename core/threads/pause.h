// A pause for a thread between two looks at memory that another thread will write.
#pragma once

namespace moka {

// Lets the other hardware thread of the core go first for a moment; nothing on CPUs that have no such instruction.
inline void PauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace moka

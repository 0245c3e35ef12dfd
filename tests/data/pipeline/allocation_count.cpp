// Replaces operator new for the whole test program; the file stands alone, as a compiler that inlined one half of a
// pair would complain about the other.
#include "tests/data/pipeline/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
}

// In a file of their own, so that the compiler cannot inline one half of a pair and complain about the other.
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;  // NOLINT(cppcoreguidelines-no-malloc)
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t& /*unused*/) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}
void operator delete(void* memory) noexcept { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
}

namespace moka {

int64_t AllocationCount() { return allocations; }

}  // namespace moka

// The text that stands before every generated kernel, and what makes an entry of its phases. A kernel's own text is the
// same for a GPU and for the host, where tests run it: the two preludes differ in how half types are converted, the two
// entries in who the threads are.
#pragma once

#include <string>
#include <string_view>

#include "core/types.h"

namespace moka::cuda {

enum class Target : uint8_t { kDevice, kHost };

// Threads of every block of generated kernels.
inline constexpr int kBlockThreads = 256;

// A kernel before it has an entry. Its text defines, in a namespace of its own:
//   struct Arguments              pointers and sizes, 8 bytes each
//   struct Shared                 what the threads of a block share
//   constexpr int kPhases         between two phases, all threads of a block wait for each other
//   void Phase(const Arguments&, Shared&, int phase, unsigned block, int thread)
struct KernelText {
  std::string name;  // of the entry and the namespace
  std::string text;
};

// The text that stands before every kernel: types, conversions, vector loads and the functions of expressions.
std::string_view Prelude(Target target);
// Device: a __global__ function `name`(Arguments). Host: extern "C" void name(unsigned blocks, const void* arguments).
std::string WithEntry(const KernelText& kernel, Target target);
// The whole source of one kernel.
inline std::string SourceOf(const KernelText& kernel, Target target) {
  return std::string(Prelude(target)) + WithEntry(kernel, target);
}

// The type of an element in generated text: "float", "Half", ...
std::string_view TypeText(DType dtype);

}  // namespace moka::cuda

// Generated kernels of pointwise: one thread takes a few neighbouring elements.
#pragma once

#include "layers/kernels/cuda/codegen/nest.h"
#include "layers/kernels/cuda/codegen/prelude.h"

namespace moka::cuda {

// Arguments of the kernel: the inputs, the outputs, the count of elements. `width`: elements a thread,
// VectorWidth(nest) or, where memory is not aligned to 16 bytes, 1.
KernelText PointwiseText(std::string name, const Expression& expression, const Nest& nest, int width);
inline int64_t PointwiseBlocks(const Nest& nest, int width) {
  const int64_t a_block = int64_t{kBlockThreads} * width;
  return (nest.Count() + a_block - 1) / a_block;
}

// The same expression over the members of a group, each dense and of its own count. Arguments of the kernel: a table of
// members in the device's memory and one of chunks, one a block.
KernelText GroupText(std::string name, const Expression& expression, const Nest& nest, int width);
// The rows of these tables: of a member its pointers, its count, its first chunk and their number; of a chunk its
// member and first element. Words of 64 bits.
std::string GroupRowsText();
// Elements of a chunk: a block goes through it in several steps.
inline constexpr int64_t kChunkSteps = 8;
inline int64_t ChunkElements(int width) { return kChunkSteps * kBlockThreads * width; }

}  // namespace moka::cuda

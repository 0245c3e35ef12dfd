// The nest of loops of a generated kernel: dimensions, slowest first, with a stride for every operand; neighbouring
// dimensions are one where all operands allow it. Layouts are unblocked (plain, channels last).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "graph/expression.h"

namespace moka::cuda {

// Strides in elements, 0 along dimensions over which the operand is repeated (or summed).
struct NestOperand {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> strides;
};

struct Nest {
  std::vector<int64_t> extents;
  std::vector<NestOperand> inputs;
  std::vector<NestOperand> outputs;
  std::vector<int64_t> index;  // strides of the logical index, which rand reads; otherwise zeros

  int64_t Count() const;
  // Whether counts and offsets of all operands fit 32 bits.
  bool IsSmall() const;
};

// The dimensions of `shape` in the order of `layout`; the logical index is an operand where `expression` is random.
// Requires: RefuseNest is silent.
Nest MakeNest(const Expression& expression, const Shape& shape, const Layout& layout,
              std::span<const TensorType> inputs, std::span<const TensorType> outputs);
// Empty, or why these types cannot be gone through so: blocks, or an input of a smaller shape that is not plain.
std::string RefuseNest(const Shape& shape, std::span<const TensorType> inputs, std::span<const TensorType> outputs);

// Elements that one thread takes at a time along the last dimension: as many as fill 128 bits of the narrowest operand
// that lies densely along it, at most 8; 1 where rows are not cut evenly or nothing lies densely. A lone dimension need
// not be cut evenly.
int VectorWidth(const Nest& nest);

}  // namespace moka::cuda

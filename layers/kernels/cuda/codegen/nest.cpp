// Takes the CPU's walk over dimensions (layers/kernels/cpu/tiles/tile_walk.h) and tells how wide a vector of the last
// dimension may be, by extents, strides and alignment.
#include "layers/kernels/cuda/codegen/nest.h"

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "layers/kernels/cpu/tiles/tile_walk.h"

namespace moka::cuda {
namespace {

// How an operand is told to the walk: dense where it lies as the walk, repacked where it lies otherwise, or repeated.
tile::WalkOperand WalkOperandOf(const TensorType& type, const Shape& shape, const Layout& layout) {
  if (type.shape != shape) return {.shape = type.shape};
  if (type.layout == layout) return {.shape = shape, .is_dense = true};
  return {.shape = shape, .repacked = type.layout};
}

int64_t LastOffset(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < extents.size(); ++d) offset += (extents[d] - 1) * strides[d];
  return offset;
}

// Whether every row of an operand that is dense along the last dimension starts where a vector may.
bool IsAligned(int width, const NestOperand& operand) {
  return operand.strides.back() != 1 || std::all_of(operand.strides.begin(), operand.strides.end() - 1,
                                                    [&](int64_t stride) { return stride % width == 0; });
}

}  // namespace

int64_t Nest::Count() const {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

bool Nest::IsSmall() const {
  // Half of what 32 bits hold: threads and chunks may start beyond the end.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto fits = [&](const NestOperand& operand) { return LastOffset(extents, operand.strides) < kMost; };
  return Count() < kMost && std::ranges::all_of(inputs, fits) && std::ranges::all_of(outputs, fits);
}

// A last operand stands for the index of random numbers: its strides are those of a plain tensor, so that an element
// draws the same number in any layout.
Nest MakeNest(const Expression& expression, const Shape& shape, const Layout& layout,
              std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  std::vector<tile::WalkOperand> operands;
  for (const TensorType& type : inputs) operands.push_back(WalkOperandOf(type, shape, layout));
  for (const TensorType& type : outputs) operands.push_back(WalkOperandOf(type, shape, layout));
  operands.push_back(WalkOperandOf({DType::kInt64, expression.IsRandom() ? shape : Shape{}, {}}, shape, layout));
  tile::Walk walk = tile::MakeWalk(layout, shape, operands);
  Nest nest{.extents = std::move(walk.extents), .inputs = {}, .outputs = {}, .index = std::move(walk.strides.back())};
  for (size_t i = 0; i < inputs.size(); ++i) nest.inputs.push_back({inputs[i].dtype, std::move(walk.strides[i])});
  for (size_t o = 0; o < outputs.size(); ++o) {
    nest.outputs.push_back({outputs[o].dtype, std::move(walk.strides[inputs.size() + o])});
  }
  return nest;
}

std::string RefuseNest(const Shape& shape, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  for (const std::span<const TensorType> types : {inputs, outputs}) {
    for (const TensorType& type : types) {
      const bool is_repeated = type.shape != shape && !type.layout.is_plain();
      if (type.layout.block_count > 0 || is_repeated) {
        return StrCat(type.ToString(), ": needs a layout without blocks, plain where the shape is not ",
                      shape.ToString());
      }
    }
  }
  return {};
}

// 16 bytes, the widest load of a thread, of the narrowest dense operand, at most 8 elements; all dense operands must
// allow it.
int VectorWidth(const Nest& nest) {
  if (nest.extents.empty()) return 1;
  int64_t narrowest = 0;
  for (const std::vector<NestOperand>* operands : {&nest.inputs, &nest.outputs}) {
    for (const NestOperand& operand : *operands) {
      if (operand.strides.back() != 1) continue;
      const int64_t bytes = BytesOf(operand.dtype);
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
    }
  }
  if (narrowest == 0) return 1;
  for (int width = static_cast<int>(std::min<int64_t>(8, 16 / narrowest)); width > 1; width /= 2) {
    const auto can = [&](const NestOperand& operand) { return IsAligned(width, operand); };
    const bool is_even = nest.extents.size() == 1 || nest.extents.back() % width == 0;
    if (is_even && std::ranges::all_of(nest.inputs, can) && std::ranges::all_of(nest.outputs, can)) return width;
  }
  return 1;
}

}  // namespace moka::cuda

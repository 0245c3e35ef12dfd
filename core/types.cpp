// The arithmetic of shapes and layouts; products of dimensions are checked for overflow.
#include "core/types.h"

#include <cctype>

#include "core/error.h"
#include "core/text.h"

namespace moka {

int64_t BytesOf(DType dtype) {
  constexpr std::array<int64_t, 8> kBytes = {4, 8, 2, 2, 8, 4, 1, 1};
  return kBytes[static_cast<size_t>(dtype)];
}

std::string_view NameOf(DType dtype) {
  constexpr std::array<std::string_view, 8> kNames = {"float32", "float64", "float16", "bfloat16",
                                                      "int64",   "int32",   "uint8",   "int8"};
  return kNames[static_cast<size_t>(dtype)];
}

bool IsFloat(DType dtype) { return dtype <= DType::kBFloat16; }

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(ErrorKind::kConfig,
                StrCat("a shape has at most ", int{kMaxRank}, " dimensions, this one ", dims.size()));
  }
  for (const int64_t dim : dims) {
    if (dim < 0) throw Error(ErrorKind::kConfig, StrCat("a dimension cannot be negative, found ", dim));
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
}

int64_t Shape::Count(int begin, int end) const {
  Size count = 1;
  for (int axis = begin; axis < end; ++axis) count *= (*this)[axis];
  return count.value();
}

Shape Shape::With(int axis, int64_t dim) const {
  Require(axis >= 0 && axis < rank_ && dim >= 0, "Shape::With: axis in range, dimension not negative");
  Shape shape = *this;
  shape.dims_[static_cast<size_t>(axis)] = dim;
  return shape;
}

Shape Shape::Inserted(int axis, int64_t dim) const {
  std::vector<int64_t> dims(this->dims().begin(), this->dims().end());
  dims.insert(dims.begin() + axis, dim);
  return Shape(dims);
}

Shape Shape::Erased(int axis) const {
  std::vector<int64_t> dims(this->dims().begin(), this->dims().end());
  dims.erase(dims.begin() + axis);
  return Shape(dims);
}

std::string Shape::ToString() const {
  std::string s = "[";
  for (int axis = 0; axis < rank_; ++axis) s += StrCat(axis > 0 ? "," : "", (*this)[axis]);
  return s + "]";
}

int CanonicalAxis(int64_t axis, const Shape& shape, std::string_view field) {
  if (axis < -shape.rank() || axis >= shape.rank()) {
    throw Error(ErrorKind::kConfig, StrCat(field, " is ", axis, " but the shape ", shape.ToString(), " has axes ",
                                           -shape.rank(), " to ", shape.rank() - 1));
  }
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

int64_t Layout::BlockOf(int axis) const {
  int64_t size = 1;
  for (int b = 0; b < block_count; ++b) {
    if (blocks[static_cast<size_t>(b)].axis == axis) size *= blocks[static_cast<size_t>(b)].size;
  }
  return size;
}

Shape Layout::Padded(const Shape& shape) const {
  if (block_count == 0) return shape;
  Shape padded = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    padded = padded.With(axis, RoundUp(shape[axis], BlockOf(axis)).value());
  }
  return padded;
}

int64_t Layout::Offset(const Shape& shape, std::span<const int64_t> index) const {
  int64_t offset = 0;
  if (is_plain()) {
    for (int axis = 0; axis < shape.rank(); ++axis) offset = offset * shape[axis] + index[static_cast<size_t>(axis)];
    return offset;
  }
  const Shape padded = Padded(shape);
  std::array<int64_t, Shape::kMaxRank> block{};
  for (int i = 0; i < shape.rank(); ++i) block[static_cast<size_t>(i)] = BlockOf(i);
  for (int i = 0; i < rank; ++i) {
    const auto axis = static_cast<size_t>(order[static_cast<size_t>(i)]);
    offset = offset * (padded[static_cast<int>(axis)] / block[axis]) + index[axis] / block[axis];
  }
  for (int b = 0; b < block_count; ++b) {
    const auto [block_axis, size] = blocks[static_cast<size_t>(b)];
    const auto axis = static_cast<size_t>(block_axis);
    block[axis] /= size;  // what lies inside this block, of the same axis
    offset = offset * size + index[axis] / block[axis] % size;
  }
  return offset;
}

Layout Layout::Simplified(const Shape& shape) const {
  if (is_plain() || Padded(shape) != shape) return *this;
  // Memory order as (axis, extent) factors longer than 1; plain means each axis once, ascending, after neighbours of
  // one axis are joined.
  int last_axis = -1;
  const auto follows = [&](int axis, int64_t extent) {
    if (extent == 1) return true;
    const bool ok = axis >= last_axis;
    last_axis = axis;
    return ok;
  };
  std::array<int64_t, Shape::kMaxRank> inside{};  // of each axis, what the blocks not yet passed hold
  for (int axis = 0; axis < shape.rank(); ++axis) inside[static_cast<size_t>(axis)] = BlockOf(axis);
  for (int i = 0; i < rank; ++i) {
    const int axis = order[static_cast<size_t>(i)];
    if (!follows(axis, shape[axis] / inside[static_cast<size_t>(axis)])) return *this;
  }
  for (int b = 0; b < block_count; ++b) {
    if (!follows(blocks[static_cast<size_t>(b)].axis, blocks[static_cast<size_t>(b)].size)) return *this;
  }
  return {};
}

std::string Layout::Name(int shape_rank) const {
  std::string s;
  for (int i = 0; i < shape_rank; ++i) {
    const int axis = is_plain() ? i : order[static_cast<size_t>(i)];
    s += static_cast<char>((BlockOf(axis) > 1 ? 'A' : 'a') + axis);
  }
  for (int b = 0; b < block_count; ++b) {
    const Block& block = blocks[static_cast<size_t>(b)];
    s += StrCat(int{block.size}, static_cast<char>('a' + block.axis));
  }
  return s;
}

Layout Layout::Parse(std::string_view name) {
  Layout layout;
  size_t i = 0;
  bool sorted = true;
  for (; i < name.size() && std::isalpha(static_cast<unsigned char>(name[i])) != 0; ++i) {
    const int axis = std::tolower(static_cast<unsigned char>(name[i])) - 'a';
    Require(axis < Shape::kMaxRank && layout.rank < Shape::kMaxRank, "a layout name has at most 8 axes");
    sorted = sorted && axis == layout.rank;
    layout.order[static_cast<size_t>(layout.rank++)] = static_cast<int8_t>(axis);
  }
  while (i < name.size()) {
    int size = 0;
    for (; i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0; ++i) {
      size = size * 10 + (name[i] - '0');
      Require(size <= 4096, "a layout block is at most 4096");
    }
    Require(i < name.size() && size > 0 && layout.block_count < kMaxBlocks, "a layout name's block is NUMBER axis");
    const auto axis = static_cast<int8_t>(name[i++] - 'a');
    layout.blocks[static_cast<size_t>(layout.block_count++)] = {axis, static_cast<int16_t>(size)};
  }
  return sorted && layout.block_count == 0 ? Layout{} : layout;
}

std::string TensorType::ToString() const {
  std::string s = StrCat(NameOf(dtype), shape.ToString());
  if (!layout.is_plain()) s += ":" + layout.Name(shape.rank());
  return s;
}

}  // namespace moka

// Values without memory: DType, Shape, Layout and TensorType. A TensorType says all a kernel needs to be chosen.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/half.h"
#include "core/size.h"

namespace moka {

enum class DType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kInt8 };

int64_t BytesOf(DType dtype);
// "float32", "int32", ...
std::string_view NameOf(DType dtype);
bool IsFloat(DType dtype);
constexpr bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};

// The dimensions of a tensor, slowest first ([N,C,H,W]). Rank 0 is a scalar.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  // Errors: kConfig if there are more than kMaxRank dimensions or one is negative.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  // Requires: 0 <= axis < rank().
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  // Product of the dimensions [begin, end); 1 for an empty range. Errors: size overflow.
  int64_t Count(int begin, int end) const;
  int64_t Count() const { return Count(0, rank_); }

  // A copy with one dimension changed, inserted or removed.
  Shape With(int axis, int64_t dim) const;
  Shape Inserted(int axis, int64_t dim) const;
  Shape Erased(int axis) const;

  // "[8,3,224,224]".
  std::string ToString() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

// Turns a Caffe axis (negative counts from the end) into 0 <= axis < rank.
// Errors: kConfig naming the field, the value and the shape.
int CanonicalAxis(int64_t axis, const Shape& shape, std::string_view field);

// How logical dimensions lie in memory: outer dimensions in `order` (slowest first), each divided by its blocks, then
// the inner blocks from outermost to innermost. The default is plain row-major for any rank. Blocked dimensions are
// padded with zeros up to a whole block. Written as oneDNN does: "aBcd16b", "ABcd16b16a", "acdb" (channels last).
struct Layout {
  struct Block {
    int8_t axis = 0;
    int16_t size = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  static constexpr int kMaxBlocks = 4;

  int8_t rank = 0;  // 0: plain
  std::array<int8_t, Shape::kMaxRank> order{};
  int8_t block_count = 0;
  std::array<Block, kMaxBlocks> blocks{};

  bool is_plain() const { return rank == 0; }
  // Product of the blocks over one axis (1 when unblocked).
  int64_t BlockOf(int axis) const;
  // The dimensions with blocked ones rounded up.
  Shape Padded(const Shape& shape) const;
  // Element offset of a logical index. Requires: the index lies in the padded shape.
  int64_t Offset(const Shape& shape, std::span<const int64_t> index) const;

  // The plain layout if this one puts the elements of `shape` in row-major order without padding, else itself.
  Layout Simplified(const Shape& shape) const;

  // Name for a rank, "plain" spelled out ("abcd").
  std::string Name(int shape_rank) const;
  // Errors: kInternal on a malformed name. Row-major names give the plain layout.
  static Layout Parse(std::string_view name);
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout;

  // Elements stored, padding included. Errors: size overflow.
  int64_t StoredCount() const { return layout.Padded(shape).Count(); }
  int64_t Bytes() const { return (Size(StoredCount()) * BytesOf(dtype)).value(); }
  // "float32[8,3,224,224]" and ":aBcd16b" when not plain.
  std::string ToString() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace moka

// The geometry that the ops of MS-CNN and Cascade R-CNN share: overlaps in their two conventions, the anchors of a
// detection branch and how box offsets move them, regions' rows and their padding.
//
// Rows of regions are (image, x1, y1, x2, y2, ..). Sizes that depend on the data are the largest possible here; rows
// that are not used come last and are -1 in every column, so an image below 0 marks them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/text.h"
#include "layers/ops/boxes.h"
#include "layers/ops/checks.h"

namespace moka {

inline constexpr double kPaddingRow = -1;

// The area that an overlap is divided by: the union, the smaller box, or the first box.
enum class OverlapMode : uint8_t { kUnion, kSmaller, kFirst };

// Errors: kConfig unless mode is IOU, IOMU or IOFU.
inline OverlapMode OverlapModeOf(std::string_view op, const Attributes& attributes) {
  const std::string& mode = attributes.String("overlap");
  if (mode == "IOU") return OverlapMode::kUnion;
  if (mode == "IOMU") return OverlapMode::kSmaller;
  if (mode == "IOFU") return OverlapMode::kFirst;
  throw Error(ErrorKind::kConfig, StrCat(op, ": overlap must be IOU, IOMU or IOFU, found ", mode));
}

// The shared part of two boxes over what the mode says; boxes hold their last pixel if side is kPixelSide.
inline double OverlapBy(OverlapMode mode, const Box<double>& a, const Box<double>& b, int side) {
  const Box<double> shared = {std::max(a[0], b[0]), std::max(a[1], b[1]), std::min(a[2], b[2]), std::min(a[3], b[3])};
  // Pixel boxes that share less than a pixel in a direction share none (Cascade R-CNN).
  if (shared[0] > shared[2] || shared[1] > shared[3]) return 0;
  const double both = Area(shared, side);
  const double first = Area(a, side);
  const double second = Area(b, side);
  const double whole = mode == OverlapMode::kUnion     ? first + second - both
                       : mode == OverlapMode::kSmaller ? std::min(first, second)
                                                       : first;
  return whole > 0 && first > 0 && second > 0 ? both / whole : 0;
}

// The boxes of a branch: anchors of these sides around each position of a map.
struct Branch {
  double width = 0;
  double height = 0;
  double stride = 1;

  double CenterX(int64_t column) const { return (static_cast<double>(column) + 0.5) * stride; }
  double CenterY(int64_t row) const { return (static_cast<double>(row) + 0.5) * stride; }
};

// How offsets are scaled: offset = raw * std + mean; and how far they may reach.
struct Offsets {
  const Doubles& means;
  const Doubles& stds;
  double center_bound = 0;  // of dx and dy
  double size_bound = 0;    // of dw and dh

  double At(size_t k, double raw) const {
    const double bound = k < 2 ? center_bound : size_bound;
    return std::min(std::max(raw * stds[k] + means[k], -bound), bound);
  }
};

// Errors: kConfig unless `means` and `stds` hold four numbers.
inline void CheckOffsets(std::string_view op, const Attributes& attributes) {
  for (const char* name : {"means", "stds"}) {
    const size_t found = attributes.Get<Doubles>(name).size();
    if (found != 4) throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " must have 4 numbers, found ", found));
  }
}

inline std::vector<AttributeSpec> OffsetAttributes() {
  return {{"means", Doubles{0, 0, 0, 0}, "of the offsets dx, dy, dw, dh"},
          {"stds", Doubles{1, 1, 1, 1}, "of the offsets; offset = value * std + mean"}};
}

// Errors: kConfig unless widths and heights have an equal, positive number of sides.
inline int64_t CheckSides(std::string_view op, const Attributes& attributes) {
  const size_t widths = attributes.Get<Doubles>("widths").size();
  const size_t heights = attributes.Get<Doubles>("heights").size();
  if (widths >= 1 && widths == heights) return static_cast<int64_t>(widths);
  throw Error(ErrorKind::kConfig,
              StrCat(op, ": widths and heights must be as many and at least 1, found ", widths, " and ", heights));
}

// A box (corner and sides) around the anchor's position, moved by offsets (Girshick's regression on anchors).
struct CornerBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

inline CornerBox Moved(const Branch& branch, int64_t row, int64_t column, const std::array<double, 4>& offsets) {
  CornerBox box{.width = branch.width * std::exp(offsets[2]), .height = branch.height * std::exp(offsets[3])};
  box.x = offsets[0] * branch.width + branch.CenterX(column) - box.width / 2;
  box.y = offsets[1] * branch.height + branch.CenterY(row) - box.height / 2;
  return box;
}

// A region moved by offsets; the result holds its last pixel, unlike MovedBox.
inline Box<double> MovedRegion(const Box<double>& region, const std::array<double, 4>& offsets) {
  const double width = region[2] - region[0] + 1;
  const double height = region[3] - region[1] + 1;
  const double new_width = width * std::exp(offsets[2]);
  const double new_height = height * std::exp(offsets[3]);
  const double x = offsets[0] * width + (region[0] + region[2]) / 2 - (new_width - 1) / 2;
  const double y = offsets[1] * height + (region[1] + region[3]) / 2 - (new_height - 1) / 2;
  return {x, y, x + new_width - 1, y + new_height - 1};
}

inline Box<double> BoxAt(const double* row) { return {row[0], row[1], row[2], row[3]}; }

// Returns the columns. Errors: kConfig unless the value is [R,columns] (or [R,columns,1,1]) with `least` to `most`
// columns.
inline int64_t CheckRows(std::string_view op, std::string_view name, const TensorType& type, int64_t least,
                         int64_t most) {
  CheckFloat(op, name, type);
  const Shape& shape = type.shape;
  const int64_t columns = shape.rank() >= 1 ? shape.Count(1, shape.rank()) : 0;
  if (shape.rank() >= 1 && columns >= least && columns <= most) return columns;
  throw Error(ErrorKind::kConfig,
              StrCat(op, ": ", name, " must have ", least, least == most ? "" : StrCat(" to ", most),
                     " columns, found ", shape.ToString()));
}

}  // namespace moka

// Two-stage detection over a pyramid of feature maps (Lin et al. 2017, arXiv 1612.03144; He et al. 2017, arXiv
// 1703.06870), for batches of several images. Corners lie between pixels, as in torchvision and Detectron2: a side is
// x2 - x1. Every result has a fixed number of rows; those of a region begin with its image's place in the batch, -1
// where there is none.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "layers/forks/rcnn/ops/anchors.h"

namespace moka {

inline constexpr double kNoPicture = -1;
inline constexpr double kCrowd = 2;  // last number of a true box: it holds many objects

// The anchors of all levels: A a cell, numbered (level, anchor, row, column) as the flattened maps of scores are.
struct AnchorPyramid {
  struct Level {
    double stride;  // pixels from cell to cell; the first cell's anchors lie around the image's corner
    int64_t height;
    int64_t width;
    int64_t first;                  // of its anchors among all
    std::span<const double> boxes;  // [A,4]
    int64_t cells() const { return height * width; }
    int64_t per_cell() const { return static_cast<int64_t>(boxes.size()) / 4; }
    int64_t Count() const { return per_cell() * cells(); }
    // Anchor i of this level, numbered from 0.
    Box<double> At(int64_t i) const {
      const double* box = boxes.data() + i / cells() * 4;
      const double x = static_cast<double>(i % cells() % width) * stride;
      const double y = static_cast<double>(i % cells() / width) * stride;
      return {box[0] + x, box[1] + y, box[2] + x, box[3] + y};
    }
    // Offset of coordinate k of anchor i in a map [4A,H,W].
    int64_t Offset(int64_t i, int64_t k) const { return (i / cells() * 4 + k) * cells() + i % cells(); }
  };
  std::vector<Level> levels;

  int64_t Count() const {
    int64_t count = 0;
    for (const Level& level : levels) count += level.Count();
    return count;
  }
};

// From the attributes strides [L], anchors [L,A,4], heights and widths [L].
// Errors: kConfig where they do not fit each other.
inline AnchorPyramid AnchorPyramidOf(std::string_view op, const Attributes& attributes, const Ints& heights,
                                     const Ints& widths) {
  const auto& strides = attributes.Get<Doubles>("strides");
  const auto& anchors = attributes.Get<Doubles>("anchors");
  const size_t levels = strides.size();
  const bool fits = levels > 0 && heights.size() == levels && widths.size() == levels && !anchors.empty() &&
                    anchors.size() % (levels * 4) == 0;
  if (!fits) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": ", levels, " strides, ", heights.size(), " maps and ", anchors.size(),
                                           " numbers of anchors do not make a pyramid"));
  }
  AnchorPyramid pyramid;
  int64_t first = 0;
  const size_t each = anchors.size() / levels;
  for (size_t l = 0; l < levels; ++l) {
    pyramid.levels.push_back({strides[l], heights[l], widths[l], first, std::span(anchors).subspan(l * each, each)});
    first = (Size(first) + (Size(pyramid.levels.back().per_cell()) * heights[l] * widths[l]).value()).value();
  }
  return pyramid;
}

// An image's size in pixels, from the attributes height and width.
struct PictureExtent {
  double height;
  double width;
  static PictureExtent Of(std::string_view op, const Attributes& attributes) {
    const PictureExtent size{static_cast<double>(attributes.Int("height")),
                             static_cast<double>(attributes.Int("width"))};
    if (size.height >= 1 && size.width >= 1) return size;
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": height and width must be at least 1, found ", size.height, " and ", size.width));
  }
  Box<double> Cut(const Box<double>& box) const {
    return {std::clamp(box[0], 0.0, width), std::clamp(box[1], 0.0, height), std::clamp(box[2], 0.0, width),
            std::clamp(box[3], 0.0, height)};
  }
};

// Whether both sides are at least `side`; false for a NaN.
inline bool HasSides(const Box<double>& box, double side) { return box[2] - box[0] >= side && box[3] - box[1] >= side; }

// Centre moved in units of the box's sides, logarithms of the sides' ratios, each divided by its `std`.
inline std::array<double, 4> CodeOfBox(const Box<double>& from, const Box<double>& to, std::span<const double> stds) {
  std::array<double, 4> code{};
  for (size_t axis = 0; axis < 2; ++axis) {
    // A side of nothing would make infinite codes.
    const double own = std::max(from[axis + 2] - from[axis], 1e-6);
    const double other = std::max(to[axis + 2] - to[axis], 1e-6);
    code[axis] = (to[axis] + other / 2 - from[axis] - own / 2) / own / stds[axis];
    code[axis + 2] = std::log(other / own) / stds[axis + 2];
  }
  return code;
}

// The box that a code says; sides grow by a factor of 1000/16 at most, so that no exponential overflows early in a
// training.
inline Box<double> BoxOfCode(const Box<double>& from, const std::array<double, 4>& code, std::span<const double> stds) {
  static const double kMostLog = std::log(1000.0 / 16);
  Box<double> box{};
  for (size_t axis = 0; axis < 2; ++axis) {
    const double side = from[axis + 2] - from[axis];
    const double center = from[axis] + side / 2 + code[axis] * stds[axis] * side;
    const double half = std::exp(std::min(code[axis + 2] * stds[axis + 2], kMostLog)) * side / 2;
    box[axis] = center - half;
    box[axis + 2] = center + half;
  }
  return box;
}

// A row of the ground truth [1,1,G,8]: image, class, row in its image (from 1), corners as parts of the image,
// difficult (1) or a crowd (2).
struct PictureTruth {
  int64_t label;
  int64_t row;      // in its image, from 1
  Box<double> box;  // pixels
};

// Errors: kConfig unless truth is [1,1,G,8].
inline void CheckPictureTruth(std::string_view op, const TensorType& truth) {
  CheckFloat(op, "boxes", truth);
  const Shape& shape = truth.shape;
  if (shape.rank() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == 8) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": boxes must be [1,1,G,8], found ", shape.ToString()));
}

// Returns the objects of one image. Those of no class, those without area and crowds, whose box is of no single
// object, are left out.
inline std::vector<PictureTruth> TruthOfPicture(const std::vector<double>& rows, int64_t picture,
                                                const PictureExtent& size) {
  std::vector<PictureTruth> truth;
  for (size_t i = 0; i + 8 <= rows.size(); i += 8) {
    const double* row = rows.data() + i;
    if (row[0] != static_cast<double>(picture) || !(row[1] >= 1) || !(row[1] < 1e6) || row[7] >= kCrowd) continue;
    const Box<double> box{row[3] * size.width, row[4] * size.height, row[5] * size.width, row[6] * size.height};
    if (!(Area(box, kUnitSide) > 0)) continue;
    truth.push_back({static_cast<int64_t>(row[1]), static_cast<int64_t>(std::clamp(row[2], -1.0, 1e9)), box});
  }
  return truth;
}

// The random stream of an image of the batch, from the attribute stream.
inline uint64_t StreamOfPicture(const Attributes& attributes, int64_t picture) {
  return (static_cast<uint64_t>(attributes.Int("stream")) << 10U) + static_cast<uint64_t>(picture);
}

inline std::vector<AttributeSpec> PictureAttributes() {
  return {{"height", {}, "pixels of the pictures"}, {"width", {}, "pixels of the pictures"}};
}

}  // namespace moka

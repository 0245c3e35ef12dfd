// The part that the pooling ops over regions share: their attributes, the shapes of x [N,C,H,W] and rois [R,5], and
// test cases.
#pragma once

#include <string_view>
#include <vector>

#include "core/text.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"
#include "layers/ops/input_shape.h"
#include "layers/ops/visit.h"

namespace moka {

// Errors: kConfig unless rois is [R,5] (or [R,5,1,1]).
inline void CheckRois(std::string_view op, const TensorType& rois) {
  CheckFloat(op, "rois", rois);
  const Shape& shape = rois.shape;
  if (shape.rank() >= 2 && shape[1] == 5 && shape.Count(2, shape.rank()) == 1) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": rois must be [R,5] (image, x1, y1, x2, y2), found ", shape.ToString()));
}

// The pooled shape of an image batch of this shape.
inline Shape RoiOutput(std::string_view op, const Attributes& attributes, const Shape& x, const TensorType& rois) {
  CheckRois(op, rois);
  const int64_t height = attributes.Int("height");
  const int64_t width = attributes.Int("width");
  if (x.rank() != 4) throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [N,C,H,W], found ", x.ToString()));
  if (height < 1 || width < 1) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": height and width must be at least 1, found ", height, " and ", width));
  }
  if ((Size(x[2]) * x[3]).value() > INT32_MAX) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": a plane of x ", x.ToString(), " has more than 2^31-1 pixels"));
  }
  return Shape{rois.shape[0], x[1], height, width};
}

inline std::vector<AttributeSpec> RoiAttributes() {
  return {{"height", {}, "rows of bins"},
          {"width", {}, "columns of bins"},
          {"scale", 1.0, "from image pixels to pixels of x"}};
}

// A case over an image batch [16,C,H,W] whose regions (whole numbers from 0 to 15) mostly reach beyond the image.
inline OpCase RoiCase(const char* name, Shape x, int64_t rois, Attributes attributes) {
  return {.name = name,
          .inputs = {{DType::kFloat32, x, {}}, Float32({rois, 5})},
          .attributes = std::move(attributes),
          .ranges = {{1, 0, 15}},
          .min_gap = 1e-5};
}

inline Attributes RoiFields(int64_t height, int64_t width, double scale) {
  return {{"height", height}, {"width", width}, {"scale", scale}};
}

}  // namespace moka

// The fields that the layers over regions read alike: the pooled size and scale, and the shapes of their two bottoms.
#pragma once

#include <string>

#include "core/text.h"
#include "layers/net/fields.h"

namespace moka {

// Whether the shape holds regions, five numbers each: [R,5], [R,5,1,1], or [1,1,R,5] as deploy nets of Caffe's first
// ROI poolings declare them, which read the numbers one after another.
inline bool HoldsRegions(const Shape& rois) {
  if (rois.rank() >= 2 && rois[1] == 5 && rois.Count(2, rois.rank()) == 1) return true;
  return rois.rank() == 4 && rois[0] == 1 && rois[1] == 1 && rois[3] == 5;
}

// Errors: kConfig unless bottom 0 is [N,C,H,W] and bottom 1 holds regions.
inline void CheckRegionBottoms(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  const Shape rois = l.shape(1);
  l.Check(x.rank() == 4, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,C,H,W], found ", x.ToString()));
  l.Check(
      HoldsRegions(rois), "bottom[1]",
      StrCat("bottom \"", l.param().bottom(1), "\" must be [R,5] (image, x1, y1, x2, y2), found ", rois.ToString()));
}

inline double ScaleOf(const LayerBuilder& l, const std::string& message, float scale) {
  const double value = Finite(l, message + ".spatial_scale", scale);
  l.Check(value > 0, message + ".spatial_scale",
          StrCat(message, ".spatial_scale must be greater than 0, found ", value));
  return value;
}

// MS-CNN's pad_ratio of a message.
inline double PadRatioOf(const LayerBuilder& l, const std::string& message, float value) {
  const double ratio = Finite(l, message + ".pad_ratio", value);
  l.Check(ratio >= 0, message + ".pad_ratio", StrCat(message, ".pad_ratio must be at least 0, found ", ratio));
  return ratio;
}

// Bottom 1 as [R,5].
inline ValueId Regions(const LayerBuilder& l) {
  const Shape rois = l.shape(1);
  const Shape rows = {rois.Count() / 5, 5};
  return rois == rows ? l.bottom(1) : l.b().Reshape(l.bottom(1), rows);
}

// The columns of the regions, [R,1] each.
inline std::vector<ValueId> RegionColumns(const LayerBuilder& l) {
  return l.b().Add("slice", {Regions(l)}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 1, 1, 1, 1}}});
}

// height, width and scale of an op over bins.
inline Attributes BinsOf(const LayerBuilder& l, const std::string& message, int64_t height, int64_t width,
                         float scale) {
  constexpr int64_t kMost = 1 << 12;
  l.Check(height >= 1 && width >= 1 && height <= kMost && width <= kMost, message,
          StrCat(message, ".pooled_h and pooled_w must be from 1 to ", kMost, ", found ", height, " and ", width));
  return {{"height", height}, {"width", width}, {"scale", ScaleOf(l, message, scale)}};
}

}  // namespace moka

// PyramidRoiAlign: each region is taken from the map that suits its size (Lin et al. 2017). A region is pooled from
// every map, but counts as padding, which costs next to nothing, in all but its own.
#include <cmath>

#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// The map's place in the pyramid: log2 of its stride.
std::vector<int> LevelsOfStrides(const LayerBuilder& l, const PyramidRoiAlignParameter& p) {
  std::vector<int> levels;
  for (int i = 0; i < p.stride_size(); ++i) {
    const int level = static_cast<int>(std::lround(std::log2(std::max(p.stride(i), 1.0F))));
    const bool follows = i == 0 || level == levels.back() + 1;
    l.Check(
        std::ldexp(1.0F, level) == p.stride(i) && follows, StrCat("pyramid_roi_align_param.stride[", i, "]"),
        StrCat("pyramid_roi_align_param.stride must be a power of 2 and twice the one before, found ", p.stride(i)));
    levels.push_back(level);
  }
  return levels;
}

void BuildPyramidRoiAlign(LayerBuilder& l) {
  const PyramidRoiAlignParameter& p = l.param().pyramid_roi_align_param();
  constexpr uint32_t kMost = 4096;
  l.Check(p.pooled_h() >= 1 && p.pooled_w() >= 1 && p.pooled_h() <= kMost && p.pooled_w() <= kMost,
          "pyramid_roi_align_param.pooled_h",
          StrCat("pyramid_roi_align_param.pooled_h and pooled_w must be from 1 to ", kMost, ", found ", p.pooled_h(),
                 " and ", p.pooled_w()));
  l.Check(p.stride_size() == l.bottom_count() - 1, "pyramid_roi_align_param.stride",
          StrCat("pyramid_roi_align_param.stride must be given once a map, found ", p.stride_size(), " for ",
                 l.bottom_count() - 1, " maps"));
  l.Check(p.sampling_ratio() <= 1024, "pyramid_roi_align_param.sampling_ratio",
          StrCat("pyramid_roi_align_param.sampling_ratio must be at most 1024, found ", p.sampling_ratio()));
  l.Check(p.canonical_size() > 0 && p.canonical_stride() > 0, "pyramid_roi_align_param.canonical_size",
          "pyramid_roi_align_param.canonical_size and canonical_stride must be greater than 0");
  const std::vector<int> levels = LevelsOfStrides(l, p);
  const GraphBuilder& b = l.b();
  const std::vector<ValueId> columns = Columns(b, l.bottom(0));
  l.Check(columns.size() == 5, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be rois [R,5], found ", l.shape(0).ToString()));
  // The least area of the map i: level = floor(log2(canonical_stride) + log2(sqrt(area) / canonical_size) + 1e-6).
  const auto least = [&](size_t i) {
    const double side = p.canonical_size() * std::exp2(levels[i] - std::log2(double{p.canonical_stride()}) - 1e-6);
    return Number(side * side);
  };
  ValueId sum = kNoId;
  for (size_t i = 0; i < levels.size(); ++i) {
    const std::string low = i == 0 ? "1" : StrCat("ge(t0,", least(i), ")");
    const std::string high = i + 1 == levels.size() ? "1" : StrCat("lt(t0,", least(i + 1), ")");
    const ValueId picture = b.Pointwise(StrCat("t0=(x3-x1)*(x4-x2);select(min(", low, ",", high, "),x0,-1)"), columns);
    const ValueId rois = Beside(b, {picture, columns[1], columns[2], columns[3], columns[4]});
    const ValueId pooled = b.Add1("roi_align", {l.bottom(static_cast<int>(i) + 1), rois},
                                  {{"height", int64_t{p.pooled_h()}},
                                   {"width", int64_t{p.pooled_w()}},
                                   {"scale", 1.0 / double{p.stride(static_cast<int>(i))}},
                                   {"sampling_ratio", int64_t{p.sampling_ratio()}}});
    sum = sum == kNoId ? pooled : b.Pointwise("x0+x1", {sum, pooled});
  }
  l.SetTop(0, sum);
}

}  // namespace

LayerDef PyramidRoiAlignLayer() {
  return {
      .type = "PyramidRoiAlign",
      .doc =
          "ROIAlign from a pyramid of maps. Bottoms: rois [R,5] (picture, x1, y1, x2, y2 in pixels), then the maps "
          "[N,C,h,w], finest first, whose strides are powers of 2. The top is [R,C,pooled_h,pooled_w]: each region is "
          "pooled from the map that suits its size; one of picture -1 gives zeros.",
      .min_bottoms = 2,
      .max_bottoms = -1,
      .build = BuildPyramidRoiAlign,
      .page = {.params = {"pyramid_roi_align_param"},
               .formula =
                   "A region of sides w and h is pooled from the map of stride `canonical_stride * 2^floor(log2(sqrt("
                   "w h) / canonical_size) + 1e-6)`, or the finest or coarsest one there is, as ROIAlign does it "
                   "with spatial_scale 1 / stride, `aligned: false` and sampling_ratio (default 2) samples a bin "
                   "along each axis.",
               .gradient = "Of a map: each dy of its own regions is added to the pixels that were sampled, times their "
                           "weights. The regions get none.",
               .source =
                   "Lin et al., \"Feature Pyramid Networks\", 2017, arXiv 1612.03144; He et al., \"Mask R-CNN\", 2017, "
                   "arXiv 1703.06870; numbers as torchvision's MultiScaleRoIAlign gives them.",
               .example =
                   R"(layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 6 dim: 5 } } }
layer { name: "p2" type: "Input" top: "p2" input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } } }
layer { name: "p3" type: "Input" top: "p3" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "pool"
  type: "PyramidRoiAlign"
  bottom: "rois"
  bottom: "p2"
  bottom: "p3"
  top: "pool"
  pyramid_roi_align_param { pooled_h: 7 pooled_w: 7 stride: 4 stride: 8 canonical_size: 32 canonical_stride: 8 }
})"}};
}

}  // namespace moka

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
    return Decimal(side * side);
  };
  const auto column = [&](size_t i) { return Term::Of(columns[i]); };
  const Term area = (column(3) - column(1)) * (column(4) - column(2));
  ValueId sum = kNoId;
  for (size_t i = 0; i < levels.size(); ++i) {
    const Term low = i == 0 ? 1 : area >= least(i);
    const Term high = i + 1 == levels.size() ? 1 : area < least(i + 1);
    const ValueId picture = b.Pointwise(Select(Min(low, high), column(0), -1), columns);
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
  return {.type = "PyramidRoiAlign",
          .min_bottoms = 2,
          .max_bottoms = -1,
          .build = BuildPyramidRoiAlign,
          .params = {"pyramid_roi_align_param"}};
}

}  // namespace moka

// Layers of optical flow nets (FlowNet, Dosovitskiy et al., arXiv 1504.06852; FlowNet 2, Ilg et al., arXiv 1612.01925):
// patches compared with displaced patches, norms of vectors, means, resizing.
#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void CheckMaps(const LayerBuilder& l, int bottom) {
  const Shape x = l.shape(bottom);
  l.Check(x.rank() == 4 && x.Count() >= 1, StrCat("bottom[", bottom, "]"),
          StrCat("bottom \"", l.param().bottom(bottom), "\" must be [N,C,H,W], found ", x.ToString()));
}

// `count` displacements: first * step, (first + 1) * step, ...
Ints Moves(int64_t first, int64_t count, int64_t step) {
  Ints moves;
  for (int64_t i = 0; i < count; ++i) moves.push_back((first + i) * step);
  return moves;
}

// Positions of patches along one axis: of `size` padded pixels those that keep `border` on either side.
int64_t Places(const LayerBuilder& l, int64_t size, int64_t border, int64_t stride) {
  const int64_t left = size - 2 * border;
  l.Check(left >= 1, "correlation_param",
          StrCat("max_displacement and kernel_size leave no place of ", size, " padded pixels"));
  return (left + stride - 1) / stride;
}

// FlowNet's correlation: channel (p, o) of the top is the mean product of a patch of bottom 0 with the patch of bottom
// 1 displaced by (p, o). Both directions are one op with lists of displacements.
void BuildCorrelation(LayerBuilder& l, bool one_axis) {
  const CorrelationParameter& p = l.param().correlation_param();
  CheckMaps(l, 0);
  CheckMaps(l, 1);
  const Shape x = l.shape(0);
  l.Check(l.shape(1) == x, "bottom[1]",
          StrCat("both bottoms must have one shape, found ", x.ToString(), " and ", l.shape(1).ToString()));
  constexpr uint32_t kMost = 1024;
  l.Check(p.kernel_size() % 2 == 1 && p.kernel_size() < kMost, "correlation_param.kernel_size",
          StrCat("kernel_size must be given, odd and below ", kMost, ", found ", p.kernel_size()));
  l.Check(p.has_max_displacement() && p.max_displacement() <= kMost, "correlation_param.max_displacement",
          StrCat("max_displacement must be given, at most ", kMost, ", found ", p.max_displacement()));
  l.Check(p.stride_1() >= 1 && p.stride_1() <= kMost && p.stride_2() >= 1 && p.stride_2() <= kMost, "correlation_param",
          StrCat("stride_1 and stride_2 must be from 1 to ", kMost));
  l.Check(p.pad() <= kMost, "correlation_param.pad", StrCat("pad is at most ", kMost, ", found ", p.pad()));
  l.Check(one_axis || p.single_direction() == 0, "correlation_param.single_direction",
          "single_direction is Correlation1D's");
  const int64_t pad = p.pad();
  const int64_t reach = p.max_displacement();
  const int64_t half = (p.kernel_size() - 1) / 2;
  const int64_t stride = p.stride_1();
  const int64_t radius = reach / p.stride_2();
  // To the left FlowNet starts one further than it is to reach, so that "no displacement" is not among them.
  const bool is_left = p.single_direction() < 0;
  const Ints across = p.single_direction() == 0 ? Moves(-radius, 2 * radius + 1, p.stride_2())
                                                : Moves(is_left ? -radius - 1 : 0, radius + 1, p.stride_2());
  const Ints size{one_axis ? Places(l, x[2], half, stride) : Places(l, x[2] + 2 * pad, reach + half, stride),
                  Places(l, x[3] + 2 * pad, reach + half, stride)};
  l.SetTop(0, l.b().Add1("correlation", {l.bottom(0), l.bottom(1)},
                         {{"kernel", int64_t{p.kernel_size()}},
                          {"stride", stride},
                          {"subtract", p.correlation_type() == CorrelationParameter::SUBTRACT},
                          {"down", one_axis ? Ints{0} : across},
                          {"across", across},
                          {"begin", Ints{one_axis ? 0 : reach - pad, reach - pad}},
                          {"size", size}}));
}

void BuildBoth(LayerBuilder& l) { BuildCorrelation(l, false); }
void BuildAcross(LayerBuilder& l) { BuildCorrelation(l, true); }

void BuildNorm(LayerBuilder& l) {
  CheckMaps(l, 0);
  const Shape x = l.shape(0);
  const ValueId sum = l.b().Add1("reduce_sum", {l.bottom(0)}, {{"expr", std::string("x0*x0")}, {"axes", Ints{1}}});
  // A vector of zeros has no slope.
  l.SetTop(0, l.b().Reshape(l.b().Pointwise("select(gt(x0,0),sqrt(x0),0)", {sum}), x.With(1, 1)));
}

// The three scales and the sign are folded into one factor and one table.
void BuildMean(LayerBuilder& l) {
  const MeanParameter& p = l.param().mean_param();
  l.Check(!p.has_file(), "mean_param.file", "mean images are not supported; give mean_param.value");
  l.Check(p.has_operation(), "mean_param.operation", "mean_param.operation must be given, ADD or SUBTRACT");
  l.Check(p.value_size() > 0, "mean_param.value", "mean_param.value must be given");
  const double input = Finite(l, "mean_param.input_scale", p.input_scale());
  const double output = Finite(l, "mean_param.output_scale", p.output_scale());
  const double sign = p.operation() == MeanParameter::SUBTRACT ? -1 : 1;
  const double factor = sign * output * Finite(l, "mean_param.mean_scale", p.mean_scale());
  for (int i = 0; i < l.bottom_count(); ++i) {
    CheckMaps(l, i);
    const Shape x = l.shape(i);
    l.Check(x[1] % p.value_size() == 0, StrCat("bottom[", i, "]"),
            StrCat("the ", x[1], " channels must be a multiple of the ", p.value_size(), " values"));
    Doubles values;
    for (int64_t c = 0; c < x[1]; ++c) {
      values.push_back(factor * Finite(l, "mean_param.value", p.value(static_cast<int>(c % p.value_size()))));
    }
    const ValueId mean = l.b().Add1("table", {}, {{"shape", Ints{1, x[1], 1, 1}}, {"values", values}});
    l.SetTop(i, l.Bottom(i) * Decimal(input * output) + Term::Of(mean));
  }
}

// Height and width: bottom 1's, or those of two fields.
Ints SizeOf(const LayerBuilder& l, const std::string& field, int64_t height, int64_t width) {
  CheckMaps(l, 0);
  if (l.bottom_count() == 2) {
    CheckMaps(l, 1);
    const Shape to = l.shape(1);
    return {to[2], to[3]};
  }
  constexpr int64_t kMost = 1 << 16;
  l.Check(height >= 1 && width >= 1 && height <= kMost && width <= kMost, field,
          StrCat("the size must be given by a second bottom or by ", field, ", from 1 to ", kMost, ", found ", height,
                 " x ", width));
  return {height, width};
}

void BuildResample(LayerBuilder& l) {
  const ResampleParameter& p = l.param().resample_param();
  l.Check(p.type() != ResampleParameter::AREA, "resample_param.type", "type is NEAREST, LINEAR or CUBIC");
  const bool is_nearest = p.type() == ResampleParameter::NEAREST;
  const std::string filter = is_nearest ? "nearest" : p.type() == ResampleParameter::CUBIC ? "cubic" : "linear";
  const Ints size = SizeOf(l, "resample_param", p.height(), p.width());
  l.SetTop(0, l.b().Add1("resample", {l.bottom(0)},
                         {{"filter", filter}, {"size", size}, {"antialias", p.antialias() && !is_nearest}}));
}

void BuildDownsample(LayerBuilder& l) {
  const DownsampleParameter& p = l.param().downsample_param();
  const Ints size = SizeOf(l, "downsample_param", p.top_height(), p.top_width());
  const Shape x = l.shape(0);
  if (size[0] == x[2] && size[1] == x[3]) {
    l.SetTop(0, l.bottom(0));
    return;
  }
  l.Check(std::min({size[0], size[1], x[2], x[3]}) >= 2, "downsample_param",
          StrCat("sides have two pixels at least before and after, found ", x.ToString(), " and ", size[0], " x ",
                 size[1]));
  l.SetTop(0, l.b().Add1("resample", {l.bottom(0)}, {{"filter", std::string("mean")}, {"size", size}}));
}

// Maps of several scales are brought to the largest (or to a reference's size, or to a multiple) and joined along the
// channels.
void BuildAccum(LayerBuilder& l) {
  const AccumParameter& p = l.param().accum_param();
  const int count = l.bottom_count() - (p.have_reference() ? 1 : 0);
  l.Check(count >= 1, "bottom", "have_reference needs a bottom before the reference");
  int64_t height = 0;
  int64_t width = 0;
  for (int i = 0; i < l.bottom_count(); ++i) {
    CheckMaps(l, i);
    if (p.have_reference() && i < count) continue;
    height = std::max(height, l.shape(i)[2]);
    width = std::max(width, l.shape(i)[3]);
  }
  if (!p.have_reference()) {
    const auto above = [&](int64_t side, int64_t given) {
      const int64_t unit = std::max<int64_t>(p.size_divisible_by(), 1);
      return p.has_size_divisible_by() ? (Size((side + unit - 1) / unit) * unit).value() : given;
    };
    const int64_t top_height = above(height, p.top_height());
    const int64_t top_width = above(width, p.top_width());
    if (top_height > height && top_width > width) {
      height = top_height;
      width = top_width;
    }
  }
  std::vector<ValueId> parts;
  for (int i = 0; i < count; ++i) {
    const Shape x = l.shape(i);
    l.Check(x[0] == l.shape(0)[0], StrCat("bottom[", i, "]"), "all bottoms must have one batch");
    const bool fits = x[2] == height && x[3] == width;
    parts.push_back(fits ? l.bottom(i) : l.b().Add1("interpolate", {l.bottom(i)}, {{"size", Ints{height, width}}}));
  }
  l.SetTop(0, parts.size() == 1 ? parts[0] : l.b().Add1("concat", parts, {{"axis", int64_t{1}}}));
}

}  // namespace

LayerDef CorrelationLayer() {
  return {
      .type = "Correlation", .min_bottoms = 2, .max_bottoms = 2, .build = BuildBoth, .params = {"correlation_param"}};
}

LayerDef Correlation1DLayer() {
  return {.type = "Correlation1D",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildAcross,
          .params = {"correlation_param"}};
}

LayerDef ChannelNormLayer() { return {.type = "ChannelNorm", .build = BuildNorm}; }

LayerDef MeanLayer() {
  return {.type = "Mean",
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = BuildMean,
          .params = {"mean_param"}};
}

LayerDef ResampleLayer() {
  return {.type = "Resample", .max_bottoms = 2, .build = BuildResample, .params = {"resample_param"}};
}

LayerDef DownsampleLayer() {
  return {.type = "Downsample", .max_bottoms = 2, .build = BuildDownsample, .params = {"downsample_param"}};
}

LayerDef AccumLayer() { return {.type = "Accum", .max_bottoms = -1, .build = BuildAccum, .params = {"accum_param"}}; }

}  // namespace moka

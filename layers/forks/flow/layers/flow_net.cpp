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

// Displacements first, first + step, ..., `count` of them.
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
    l.SetTop(i, l.b().Pointwise(StrCat("x0*", Number(input * output), "+x1"), {l.bottom(i), mean}));
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

constexpr const char* kTwoMaps =
    R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 8 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 8 } } }
)";
constexpr const char* kOneMap =
    "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 8 } } }\n";
constexpr const char* kFlowNet2 = "FlowNet 2 (Ilg et al., arXiv 1612.01925), its Caffe";

}  // namespace

LayerDef CorrelationLayer() {
  return {
      .type = "Correlation",
      .doc =
          "Patches of bottom 0 [N,C,H,W] compared with displaced patches of bottom 1, of one shape: the top "
          "[N,D*D,h,w] has a channel a displacement, D = 2 floor(max_displacement / stride_2) + 1 in each direction, "
          "and h, w the places, stride_1 apart, whose displaced patches of kernel_size lie in the maps padded by pad.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildBoth,
      .page = {
          .params = {"correlation_param"},
          .formula = "With K = kernel_size, r = floor(max_displacement / stride_2), both maps padded by pad zeros: "
                     "`y[n, (p+r) D + o+r, i, j] = sum over a patch of K x K pixels and the channels of a[.. s1 i + "
                     "m, s1 j + m] * b[.. s1 i + m + s2 p, s1 j + m + s2 o] / (K K C)` with m = max_displacement, s1, "
                     "s2 the strides and p, o from -r to r; h = ceil((H + 2 pad - 2 m - (K-1)) / s1), w likewise. "
                     "correlation_type SUBTRACT: |a - b| in place of a b.",
          .gradient = "`da = sum of dy * b / (K K C)` over the patches and displacements a pixel is part of, `db` "
                      "likewise; SUBTRACT: sign(a - b) and its negative.",
          .source = "FlowNet (Dosovitskiy et al., arXiv 1504.06852); FlowNet 2's Caffe, correlation_layer. do_abs is "
                    "read and not used, as there.",
          .example = std::string(kTwoMaps) + R"(layer {
  name: "c"
  type: "Correlation"
  bottom: "a"
  bottom: "b"
  top: "c"
  correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 stride_1: 1 stride_2: 1 }
})"}};
}

LayerDef Correlation1DLayer() {
  return {
      .type = "Correlation1D",
      .doc =
          "Correlation with displacements along the rows alone, for stereo: the top [N,D,h,w], D = 2 "
          "floor(max_displacement / stride_2) + 1; single_direction below or above 0: only to the left or to the "
          "right, D = floor(max_displacement / stride_2) + 1. Only the width is padded.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildAcross,
      .page = {.params = {"correlation_param"},
               .formula =
                   "As Correlation with p = 0 alone, rows from s1 i, h = ceil((H - (K-1)) / s1). o goes from -r to r; "
                   "single_direction above 0: 0 to r, below 0: -r-1 to -1. Pixels outside the padded maps count as 0.",
               .gradient = "As Correlation.",
               .source =
                   "DispNet (Mayer et al., arXiv 1512.02134); FlowNet 2's Caffe, correlation_layer1d, which to the "
                   "left starts one displacement further and may read past a row's begin.",
               .example = std::string(kTwoMaps) + R"(layer {
  name: "c"
  type: "Correlation1D"
  bottom: "a"
  bottom: "b"
  top: "c"
  correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 single_direction: -1 }
})"}};
}

LayerDef ChannelNormLayer() {
  return {.type = "ChannelNorm",
          .doc = "The Euclidean norm of the channels at each pixel: [N,C,H,W] to [N,1,H,W]. It has no fields.",
          .build = BuildNorm,
          .page = {.params = {},
                   .formula = "`y[n,0,i,j] = sqrt(sum over c of x[n,c,i,j]^2)`.",
                   .gradient = "`dx = dy * x / y`, 0 where y is 0.",
                   .source = StrCat(kFlowNet2, ", channel_norm_layer, which divides by y + 1e-9."),
                   .example = std::string(kOneMap) +
                              "layer { name: \"norm\" type: \"ChannelNorm\" bottom: \"x\" top: \"norm\" }"}};
}

LayerDef MeanLayer() {
  return {
      .type = "Mean",
      .doc =
          "A value a channel added to or subtracted from each bottom [N,C,H,W] (mean_param operation, value; one "
          "value, or as many as divide the channels, which then repeat); a top a bottom.",
      .max_bottoms = -1,
      .max_tops = -1,
      .equal_counts = true,
      .build = BuildMean,
      .page = {.params = {"mean_param"},
               .formula =
                   "`y[n,c] = output_scale * (input_scale * x[n,c] +- mean_scale * value[c mod V])` with V the number "
                   "of values, + for ADD and - for SUBTRACT; the scales are 1 by default.",
               .gradient = "`dx = output_scale * input_scale * dy`.",
               .source = StrCat(kFlowNet2, ", mean_layer, which has no gradient. mean_param.file is refused."),
               .example = std::string(kOneMap) + R"(layer {
  name: "mean"
  type: "Mean"
  bottom: "x"
  top: "mean"
  mean_param { operation: SUBTRACT value: 0.4 value: 0.5 value: 0.6 input_scale: 0.5 }
})"}};
}

LayerDef ResampleLayer() {
  return {
      .type = "Resample",
      .doc =
          "[N,C,H,W] resized to bottom 1's height and width, or to resample_param.height and width, by the filter "
          "type: NEAREST, LINEAR (default) or CUBIC; antialias (default) widens the filter when shrinking. No "
          "gradient.",
      .max_bottoms = 2,
      .build = BuildResample,
      .page = {
          .params = {"resample_param"},
          .formula =
              "With f_x = W / w and f_y = H / h, pixel (i, j) lies at `v = i f_y + f_x / 2 - 1/2`, `u = j f_x + f_y / "
              "2 - 1/2` and is the mean of the pixels around weighted by `k(a_y (v - row)) k(a_x (u - column))`, k "
              "the triangle or the cubic with a = -1/2, a = 1, or 1 / f with antialias when either side shrinks. "
              "NEAREST: the pixel at (round v, round u).",
          .gradient = "None: a bottom that needs one gets 0.",
          .source = StrCat(kFlowNet2,
                           ", resample_layer: f_x and f_y change places in the halves, as there. NEAREST "
                           "reads the nearest pixel of the map where that lies outside. type AREA is "
                           "refused; factor is read and not used."),
          .example = std::string(kOneMap) + R"(layer {
  name: "large"
  type: "Resample"
  bottom: "x"
  top: "large"
  resample_param { height: 12 width: 16 type: LINEAR }
})"}};
}

LayerDef DownsampleLayer() {
  return {
      .type = "Downsample",
      .doc =
          "[N,C,H,W] resized to bottom 1's height and width, or to downsample_param.top_height and top_width, by "
          "weighted means that leave out NaN (unknown flow). No gradient.",
      .max_bottoms = 2,
      .build = BuildDownsample,
      .page = {.params = {"downsample_param"},
               .formula =
                   "With s_x = (W-1) / (w-1) and s_y = (H-1) / (h-1), pixel (i, j) is the mean of the pixels weighted "
                   "by `max(0, 1 - |row - i s_y| / s_y) max(0, 1 - |column - j s_x| / s_x)`; NaNs count for nothing, "
                   "but the pixel is NaN where their weight is above half of the others'. Of the same size it is the "
                   "bottom.",
               .gradient = "None: a bottom that needs one gets 0.",
               .source = StrCat(kFlowNet2, ", downsample_layer."),
               .example = std::string(kOneMap) + R"(layer {
  name: "small"
  type: "Downsample"
  bottom: "x"
  top: "small"
  downsample_param { top_height: 3 top_width: 4 }
})"}};
}

LayerDef AccumLayer() {
  return {
      .type = "Accum",
      .doc =
          "Bottoms [N,C_i,H_i,W_i] resized to one height and width, bilinear with aligned corners, and concatenated "
          "along the channels. The size is the largest bottom's in each direction; with accum_param top_height and "
          "top_width, or size_divisible_by, that if it is larger in both; with have_reference that of the last "
          "bottom, which is left out.",
      .max_bottoms = -1,
      .build = BuildAccum,
      .page = {.params = {"accum_param"},
               .formula =
                   "The top [N, sum C_i, h, w] has x_i at `(i (H_i - 1) / (h - 1), j (W_i - 1) / (w - 1))` for each "
                   "bottom. size_divisible_by d: the largest sides rounded up to multiples of d.",
               .gradient = "Each dy goes to the four pixels around with their weights.",
               .source = StrCat(kFlowNet2, ", accum_layer."),
               .example = std::string(kTwoMaps) + R"(layer {
  name: "y"
  type: "Accum"
  bottom: "a"
  bottom: "b"
  top: "y"
  accum_param { size_divisible_by: 5 }
})"}};
}

}  // namespace moka

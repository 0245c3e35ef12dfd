// Max, average and stochastic pooling with Caffe's sizes: the output is rounded up (or down), then, with padding, a
// last window that would begin beyond the image and its leading pad is dropped. What the last window needs past the
// image becomes padding at the end; average pooling counts at most `pad` of it.
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/convolution/spatial_fields.h"
#include "layers/types/pooling/stochastic_pooling.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

constexpr int64_t kMaxDilated = 64;  // slices a dilated window is made of, along one axis

bool HasKernel(const PoolingParameter& p) {
  return p.kernel_size_size() > 0 || p.has_kernel_h() || p.has_kernel_w() || p.has_kernel_shape() ||
         p.kernel_size_3d_size() > 0;
}

void CheckGlobal(const LayerBuilder& l, const PoolingParameter& p, const WindowFields& fields) {
  l.Check(!HasKernel(p), "pooling_param.global_pooling",
          "global_pooling takes the whole image; kernel_size must not be given");
  const auto is = [](int64_t value) { return [value](int64_t x) { return x == value; }; };
  l.Check(std::ranges::all_of(fields.pad, is(0)) && std::ranges::all_of(fields.stride, is(1)),
          "pooling_param.global_pooling", "global_pooling needs pad 0 and stride 1");
}

void CheckWindow(const LayerBuilder& l, const PoolingParameter& p, const WindowFields& fields) {
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    const int64_t k = fields.kernel[i];
    l.Check(k >= 1 && k <= INT32_MAX, "pooling_param.kernel_size",
            StrCat("pooling_param.kernel_size must be from 1 to 2^31-1, found ", k));
    l.Check(fields.stride[i] >= 1 && fields.stride[i] <= INT32_MAX, "pooling_param.stride",
            StrCat("pooling_param.stride must be from 1 to 2^31-1, found ", fields.stride[i]));
    l.Check(fields.pad[i] < k, "pooling_param.pad",
            StrCat("pooling_param.pad must be below the kernel's ", k, ", found ", fields.pad[i]));
    l.Check(fields.pad[i] == 0 || p.pool() != PoolingParameter::STOCHASTIC, "pooling_param.pad",
            "stochastic pooling takes no pad");
  }
}

// Intel's three lists under the names of the others.
PoolingParameter OneSpelling(PoolingParameter p) {
  if (p.kernel_size_3d_size() > 0) *p.mutable_kernel_size() = p.kernel_size_3d();
  if (p.stride_3d_size() > 0) *p.mutable_stride() = p.stride_3d();
  if (p.pad_3d_size() > 0) *p.mutable_pad() = p.pad_3d();
  return p;
}

// Synopsys's pad_type 1, TensorFlow's SAME: ceil(in / stride) windows, the padding shared out evenly.
void PadAsTensorFlow(const LayerBuilder& l, WindowFields& fields) {
  const PoolingParameter& p = l.param().pooling_param();
  l.Check(p.pad_type() == 1, "pooling_param.pad_type", StrCat("pad_type must be 0 or 1, found ", p.pad_type()));
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    l.Check(fields.pad[i] == 0 && fields.pad_end[i] == 0, "pooling_param.pad_type", "give pad or pad_type, not both");
    const int64_t k = fields.kernel[i];
    const int64_t s = fields.stride[i];
    l.Check(k >= s, "pooling_param.pad_type", StrCat("pad_type 1 needs a kernel of at least the stride ", s));
    const int64_t rest = l.shape(0)[static_cast<int>(i) + 2] % s;
    const int64_t pad = std::max<int64_t>(k - (rest == 0 ? s : rest), 0);
    fields.pad[i] = pad / 2;
    fields.pad_end[i] = pad - pad / 2;
  }
}

WindowFields ReadFields(const LayerBuilder& l) {
  const PoolingParameter p = OneSpelling(l.param().pooling_param());
  const bool rounds_up = p.round_mode() == PoolingParameter::CEIL;
  l.Check(!p.has_ceil_mode() || !p.has_round_mode() || p.ceil_mode() == rounds_up, "pooling_param.round_mode",
          StrCat("round_mode is ", rounds_up ? "CEIL" : "FLOOR", " and ceil_mode ", p.ceil_mode() ? "true" : "false",
                 ", and the two are one thing; keep one of them"));
  const Shape x = l.shape(0);
  l.Check(p.global_pooling() || HasKernel(p), "pooling_param",
          "pooling_param.kernel_size (or kernel_h and kernel_w) must be given");
  WindowFields fields = ReadWindow(l, x, "pooling_param", p, !p.global_pooling());
  if (p.global_pooling()) {
    CheckGlobal(l, p, fields);
    const Shape image = Part(x, 2, x.rank());
    fields.kernel.assign(image.dims().begin(), image.dims().end());
  }
  CheckWindow(l, p, fields);
  if (p.pad_type() != 0) PadAsTensorFlow(l, fields);
  return fields;
}

// Whether sizes round down, in any of the forks' spellings.
bool RoundsDown(const PoolingParameter& p) {
  return p.round_mode() == PoolingParameter::FLOOR || !p.ceil_mode() || p.torch_pooling();
}

// Padding at the end of spatial axis i that gives Caffe's number of windows.
int64_t PadEnd(const LayerBuilder& l, const WindowFields& fields, size_t i) {
  const Size in = l.shape(0)[static_cast<int>(i) + 2];
  const Size k = fields.kernel[i];
  const Size s = fields.stride[i];
  const Size pad = fields.pad[i];
  const Size room = in + pad + fields.pad_end[i] - k;
  const bool is_floor = RoundsDown(l.param().pooling_param());
  Size windows = (is_floor ? room / s : (room + s - 1) / s) + 1;
  const auto is_positive = [](int64_t p) { return p > 0; };
  const bool is_padded =
      std::ranges::any_of(fields.pad, is_positive) || std::ranges::any_of(fields.pad_end, is_positive);
  // So does Intel's Caffe for a kernel of 1, where BVLC's would have a window of nothing.
  const bool is_clipped = is_padded || std::ranges::find(fields.kernel, 1) != fields.kernel.end();
  if (is_clipped && (windows - 1) * s >= in + pad) windows = windows - 1;
  const Size last = (windows - 1) * s - pad;
  l.Check(windows >= 1, "pooling_param.kernel_size",
          StrCat("the kernel ", k.value(), " is larger than spatial axis ", i, " of the bottom ", l.shape(0).ToString(),
                 " with pad ", pad.value()));
  l.Check(last < in, "pooling_param.stride",
          StrCat("the last window would begin at ", last.value(), " of spatial axis ", i, ", outside the bottom ",
                 l.shape(0).ToString(), "; set round_mode: FLOOR"));
  return std::max<int64_t>(0, (last + k - in).value());
}

void BuildMax(LayerBuilder& l, const Attributes& geometry) {
  const std::vector<ValueId> pooled = l.b().Add("pool_max", {l.bottom(0)}, geometry);
  l.SetTop(0, pooled[0]);
  if (l.top_count() == 1) return;
  Attributes attributes = geometry;
  const Shape input = l.shape(0);
  attributes.Set("input_shape", DimsOf(input));
  l.SetTop(1, l.b().Add1("pool_max_mask", {pooled[1]}, attributes));
}

// Elements of a window `dilation` apart (Greentea): what a window of a plain kernel reads one by one is a slice of the
// bottom for each element of the kernel, axis by axis; a larger stride then takes every s-th result.
void BuildDilated(LayerBuilder& l, const WindowFields& fields, const Ints& dilation) {
  const PoolingParameter& p = l.param().pooling_param();
  const bool is_max = p.pool() == PoolingParameter::MAX;
  l.Check(is_max || p.pool() == PoolingParameter::AVE, "pooling_param.pool", "dilation is for MAX and AVE pooling");
  l.Check(l.top_count() == 1, "top[1]", "pooling with a dilation has no mask");
  const GraphBuilder& b = l.b();
  ValueId y = l.bottom(0);
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    l.Check(fields.pad[i] == 0 && fields.pad_end[i] == 0, "pooling_param.pad", "pooling with a dilation takes no pad");
    const int axis = static_cast<int>(i) + 2;
    const int64_t k = fields.kernel[i];
    const Size room = Size(l.shape(0)[axis]) - (Size(k) - 1) * dilation[i] - 1;
    l.Check(room >= 0, "pooling_param.kernel_size",
            StrCat("the kernel ", k, " with dilation ", dilation[i], " is larger than axis ", axis, " of the bottom ",
                   l.shape(0).ToString()));
    l.Check(room.value() % fields.stride[i] == 0 || RoundsDown(p), "pooling_param.stride",
            StrCat("with a dilation the last window must end inside axis ", axis, "; set round_mode: FLOOR"));
    l.Check(k <= kMaxDilated, "pooling_param.kernel_size",
            StrCat("a kernel with a dilation is limited to ", kMaxDilated, ", found ", k));
    std::vector<ValueId> parts;
    Term value = Term::Input(0);
    for (int64_t j = 0; j < k; ++j) {
      parts.push_back(CutOut(b, y, axis, j * dilation[i], room.value() + 1));
      if (j == 0) continue;
      const Term x = Term::Input(static_cast<size_t>(j));
      value = is_max ? Select(x > value, x, value) : value + x;
    }
    if (k > 1) y = b.Pointwise(is_max ? value : value / k, parts);
  }
  const Ints none(fields.kernel.size(), 0);
  const Ints one(fields.kernel.size(), 1);
  if (fields.stride != one) {
    y = b.Add("pool_max", {y}, {{"kernel", one}, {"stride", fields.stride}, {"pad_begin", none}, {"pad_end", none}})[0];
  }
  l.SetTop(0, y);
}

void BuildPooling(LayerBuilder& l) {
  const WindowFields fields = ReadFields(l);
  SpatialField spread{.name = "pooling_param.dilation", .name_h = {}, .values = {}};
  spread.values = IntsOf(l.param().pooling_param().dilation());
  spread.fallback = 1;
  const Ints dilation = ReadSpatial(l, spread, static_cast<int>(fields.kernel.size()));
  if (std::ranges::any_of(dilation, [](int64_t d) { return d > 1; })) return BuildDilated(l, fields, dilation);
  Ints pad_end;
  for (size_t i = 0; i < fields.kernel.size(); ++i) pad_end.push_back(PadEnd(l, fields, i));
  Attributes geometry{
      {"kernel", fields.kernel}, {"stride", fields.stride}, {"pad_begin", fields.pad}, {"pad_end", pad_end}};
  const auto method = l.param().pooling_param().pool();
  l.Check(method != PoolingParameter::SUM, "pooling_param.pool", "SUM is the method of SumPooling");
  if (method == PoolingParameter::MAX) return BuildMax(l, geometry);
  l.Check(l.top_count() == 1, "top[1]", "only MAX pooling has a second top, the mask");
  if (method == PoolingParameter::STOCHASTIC) return l.SetTop(0, StochasticPool(l, geometry));
  Ints count_end;
  for (size_t i = 0; i < pad_end.size(); ++i) count_end.push_back(std::min(pad_end[i], fields.pad_end[i]));
  const bool counts_pad = l.param().pooling_param().avg_include_pad() && method != PoolingParameter::AVE_EXC_PAD &&
                          method != PoolingParameter::AVE_TF;
  const Ints none(pad_end.size(), 0);
  geometry.Set("count_begin", counts_pad ? fields.pad : none);
  geometry.Set("count_end", counts_pad ? count_end : none);
  l.SetTop(0, l.b().Add1("pool_average", {l.bottom(0)}, geometry));
}

void NeedsOfPooling(const ShapeReader& reader) {
  NeedPictures(reader);
  NeedVolume(reader, WindowAxes(reader.layer().pooling_param()), 1);
}

BottomShapes BottomsOfPooling(const TopNeed& need) {
  const PoolingParameter& p = need.layer.pooling_param();
  if (need.top.rank() != 4 || p.global_pooling()) return {};
  const auto bottom = BottomUnderWindows(p, need.top, need.top[1]);
  return bottom ? BottomShapes{*bottom} : BottomShapes{};
}

}  // namespace

LayerDef PoolingLayer() {
  return {.type = "Pooling",
          .max_tops = 2,
          .build = BuildPooling,
          .traits = {.top_shape = TopShape::kAxes, .drawn_as = DrawnAs::kPooling},
          .needs = NeedsOfPooling,
          .bottoms = BottomsOfPooling,
          .params = {"pooling_param"}};
}

// The same layer under the names of forks.

LayerDef NdPoolingLayer() {
  LayerDef def = PoolingLayer();
  def.type = "NdPooling";
  return def;
}

LayerDef Pooling3DLayer() {
  LayerDef def = PoolingLayer();
  def.type = "Pooling3D";
  return def;
}

LayerDef PoolingNdLayer() {
  LayerDef def = NdPoolingLayer();
  def.type = "PoolingND";
  def.params = {"pooling_nd_param", "pooling_param"};
  return def;
}

}  // namespace moka

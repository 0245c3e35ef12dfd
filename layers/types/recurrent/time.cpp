// Small layers around sequences: marks of their beginnings, their order turned round, axes in another order, and the
// gathering of what processes hold.
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildIndicator(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const ContinuationIndicatorParameter& p = l.param().continuation_indicator_param();
  const int64_t steps = p.time_step();
  const int64_t streams = p.batch_size();
  l.Check(steps >= 1, "continuation_indicator_param.time_step", "time_step must be given and at least 1");
  l.Check(streams >= 1, "continuation_indicator_param.batch_size", "batch_size must be given and at least 1");
  const ValueId first = b.Full({1, streams}, 0);
  if (steps == 1) return l.SetTop(0, first);
  l.SetTop(0, b.Add1("concat", {first, b.Full({steps - 1, streams}, 1)}, {{"axis", int64_t{0}}}));
}

void BuildReverse(LayerBuilder& l) {
  const int axis = AxisOf(l, "reverse_param.axis", l.param().reverse_param().axis(), l.shape(0));
  l.SetTop(0, l.b().Add1("flip", {l.bottom(0)}, {{"axes", Ints{axis}}}));
}

void BuildReverseTime(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [steps,sequences,..], found ", x.ToString()));
  l.Check(
      l.shape(1).Count() == x[1], "bottom[1]",
      StrCat("there must be ", x[1], " lengths, one a sequence of ", x.ToString(), ", found ", l.shape(1).ToString()));
  const ValueId lengths = l.b().Reshape(l.b().Add1("stop_gradient", {l.bottom(1)}), {x[1]});
  l.SetTop(0, l.b().Add1("reverse_time", {l.bottom(0), lengths},
                         {{"copy_remaining", l.param().reverse_time_param().copy_remaining()}}));
}

void BuildTranspose(LayerBuilder& l) {
  const auto& dims = l.param().transpose_param().dim();
  const Shape x = l.shape(0);
  l.Check(dims.size() == x.rank(), "transpose_param.dim",
          StrCat("transpose_param.dim must name each of the ", x.rank(), " axes of ", x.ToString(), " once, found ",
                 dims.size()));
  Ints perm;
  for (int i = 0; i < dims.size(); ++i) {
    const int axis = AxisOf(l, StrCat("transpose_param.dim[", i, "]"), dims.Get(i), x);
    l.Check(std::ranges::find(perm, axis) == perm.end(), StrCat("transpose_param.dim[", i, "]"),
            StrCat("transpose_param.dim names axis ", axis, " twice"));
    perm.push_back(axis);
  }
  l.SetTop(0, std::ranges::is_sorted(perm) ? l.bottom(0) : l.b().Add1("transpose", {l.bottom(0)}, {{"perm", perm}}));
}

void BuildGather(LayerBuilder& l) {
  for (int i = 0; i < l.bottom_count(); ++i) l.SetTop(i, l.bottom(i));
}

}  // namespace

LayerDef ContinuationIndicatorLayer() {
  return {.type = "ContinuationIndicator",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .build = BuildIndicator,
          .params = {"continuation_indicator_param"}};
}

LayerDef ReverseLayer() {
  return {.type = "Reverse", .build = BuildReverse, .traits = {.hands_on = true}, .params = {"reverse_param"}};
}

LayerDef ReverseTimeLayer() {
  return {.type = "ReverseTime",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildReverseTime,
          .params = {"reverse_time_param"}};
}

LayerDef TransposeLayer() { return {.type = "Transpose", .build = BuildTranspose, .params = {"transpose_param"}}; }

LayerDef GatherLayer() {
  return {.type = "Gather", .max_bottoms = -1, .max_tops = -1, .equal_counts = true, .build = BuildGather};
}

}  // namespace moka

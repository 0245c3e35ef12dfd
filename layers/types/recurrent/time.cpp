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
  return {
      .type = "ContinuationIndicator",
      .doc =
          "Marks [time_step, batch_size] for sequences that each fill a batch: 0 at the first step, 1 at the others "
          "(the cont bottom of LSTM).",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .build = BuildIndicator,
      .page = {.params = {"continuation_indicator_param"},
               .formula = "`y[t,n] = 0` if t is 0, else 1; `[time_step, batch_size]`.",
               .gradient = "None: the top is a constant.",
               .source = "github.com/xmfbit/warpctc-caffe, continuation_indicator_layer.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 2 dim: 3 } } }
layer {
  name: "cont"
  type: "ContinuationIndicator"
  top: "cont"
  continuation_indicator_param { time_step: 4 batch_size: 2 }
}
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 5 } })"}};
}

LayerDef ReverseLayer() {
  return {
      .type = "Reverse",
      .doc = "The bottom with the order along reverse_param.axis (default 0: time) turned round.",
      .build = BuildReverse,
      .page = {.params = {"reverse_param"},
               .formula = "`y[.., i, ..] = x[.., n-1-i, ..]` along the axis, of n elements.",
               .gradient = "x: dy turned round in the same way.",
               .source = "ChWick's Caffe, reverse_layer. A negative axis counts from the end.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "back" type: "Reverse" bottom: "x" top: "back" reverse_param { axis: 0 } })"}};
}

LayerDef ReverseTimeLayer() {
  return {
      .type = "ReverseTime",
      .doc =
          "Sequences [T,N,..] turned round within their lengths, bottom 1 [N]; the steps after them are 0, or with "
          "copy_remaining those of the bottom.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildReverseTime,
      .page = {.params = {"reverse_time_param"},
               .formula = "`y[t,n] = x[length[n]-1-t, n]` for `t < length[n]`; after that x[t,n] with "
                          "`copy_remaining`, else 0. Lengths are cut to [0,T].",
               .gradient = "x: dy turned round in the same way; lengths get none.",
               .source = "ChWick's Caffe, reverse_time_layer, which leaves the steps past a length as they were in "
                         "memory.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "lengths" type: "Input" top: "lengths" input_param { shape { dim: 2 } } }
layer {
  name: "back"
  type: "ReverseTime"
  bottom: "x"
  bottom: "lengths"
  top: "back"
  reverse_time_param { copy_remaining: true }
})"}};
}

LayerDef TransposeLayer() {
  return {
      .type = "Transpose",
      .doc = "The bottom with its axes in another order: top axis i is the bottom's axis transpose_param.dim(i).",
      .build = BuildTranspose,
      .page = {
          .params = {"transpose_param"},
          .formula = "`y[j_0, j_1, ..] = x[i_0, i_1, ..]` with `i_dim(k) = j_k`. dim names each axis once.",
          .gradient = "x: dy with the axes put back.",
          .source = "The Transpose layer of CTPN's Caffe (Tian et al., arXiv 1609.03605) and caffe_ocr.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 1 dim: 5 } } }
layer {
  name: "steps"
  type: "Transpose"
  bottom: "x"
  top: "steps"
  transpose_param { dim: 3 dim: 0 dim: 1 dim: 2 }
})"}};
}

LayerDef GatherLayer() {
  return {.type = "Gather",
          .doc =
              "The parts of a batch that the processes of a run hold, together in each of them: with data parallelism "
              "of whole nets, as here, every process goes on with its own part, and the tops are the bottoms.",
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = BuildGather,
          .page = {.params = {},
                   .formula = "`y_i = x_i`.",
                   .gradient = "x: dy.",
                   .source = "yjxiong's Caffe (temporal segment networks, Wang et al., arXiv 1608.00859), whose MPI "
                             "processes compute the layers after it on the whole batch. The result of a step is the "
                             "same but for layers with statistics of a batch.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "all" type: "Gather" bottom: "x" top: "all" })"}};
}

}  // namespace moka

// Caffe's RNN: h_t = tanh(W_hh (cont_t h_{t-1}) + W_xh x_t + b_h (+ W_xh_static x_static)), o_t = tanh(W_ho h_t + b_o).
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/recurrent/recurrence.h"

namespace moka {
namespace {

void BuildRnn(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const RecurrentFields fields = ReadRecurrentFields(l, 1);
  const Sequence s = ReadSequence(l, fields, {"h"});
  const int64_t outputs = fields.outputs;
  const auto weight = [&](int index, int64_t columns) {
    return l.AddBlob(index, {outputs, columns}, fields.weight_filler, ParameterRole::kWeight, fields.weight_field());
  };
  const auto bias = [&](int index) {
    return l.AddBlob(index, {outputs}, fields.bias_filler, ParameterRole::kBias, fields.bias_field());
  };
  int index = 0;
  const ValueId w_x = weight(index++, b.shape(s.x)[1]);
  const ValueId b_h = bias(index++);
  const ValueId w_fixed = s.fixed == kNoId ? kNoId : weight(index++, b.shape(s.fixed)[1]);
  const ValueId w_h = weight(index++, outputs);
  const ValueId w_o = weight(index++, outputs);
  const ValueId b_o = bias(index);

  const std::vector<ValueId> x = StepsOf(l, Project(b, s.x, w_x, b_h), s.steps);
  const ValueId fixed = s.fixed == kNoId ? kNoId : Project(b, s.fixed, w_fixed);
  ValueId h = s.first[0];
  std::vector<ValueId> all;
  for (size_t t = 0; t < x.size(); ++t) {
    const ValueId before = Project(b, Continued(b, h, s.going[t]), w_h);
    h = fixed == kNoId ? b.Pointwise("tanh(x0+x1)", {before, x[t]})
                       : b.Pointwise("tanh(x0+x1+x2)", {before, x[t], fixed});
    all.push_back(h);
  }
  // The outputs of all steps at once: nothing later depends on them.
  const ValueId o = b.Pointwise("tanh(x0)", {Project(b, JoinSteps(b, all), w_o, b_o)});
  l.SetTop(0, b.Reshape(o, {s.steps, s.streams, outputs}));
  EndSequence(l, s, {h});
}

}  // namespace

LayerDef RnnLayer() {
  return {
      .type = "RNN",
      .doc =
          "The simple recurrent net over x [T,N,..] with cont [T,N] (0 where a new sequence begins) and optionally "
          "x_static [N,..]: h = tanh(W_hh cont h' + W_xh x + b_h (+ W_xh_static x_static)), o = tanh(W_ho h + b_o) "
          "[T,N,H], H = recurrent_param.num_output. Blobs: W_xh, b_h, W_xh_static if there is x_static, W_hh, W_ho, "
          "b_o. The last h is kept and begins the next run, without gradient; with expose_hidden it is bottom h_0 "
          "and top h_T [1,N,H] instead, through which gradients do flow.",
      .min_bottoms = 2,
      .max_bottoms = 4,
      .max_tops = 2,
      .build = BuildRnn,
      .page = {.params = {"recurrent_param", "lstm_param"},
               .formula = "For t = 0..T-1, with h' the state before step t and m = cont[t] of each stream: `h = "
                          "tanh(W_hh (m h') + W_xh x_t + b_h + W_xh_static x_static)`, `o_t = tanh(W_ho h + b_o)`. Top "
                          "0 is o of all steps, `[T,N,H]`; x is `[T,N,..]` with D elements a row, cont `[T,N]`, "
                          "x_static `[N,..]` with S. Blobs in order: W_xh `[H,D]`, b_h `[H]`, W_xh_static `[H,S]` if "
                          "there is x_static, W_hh `[H,H]`, W_ho `[H,H]`, b_o `[H]`.\n\nThe state before step 0 is "
                          "that after the last step of the run before (zeros at first); with `expose_hidden` it is the "
                          "last bottom, h_0 `[1,N,H]`, and top 1 is h_T `[1,N,H]`. T is at most 8192.",
               .gradient = "x, x_static and all blobs: through all steps of this run back to its first. With "
                           "expose_hidden also h_0. cont and the kept state get none.",
               .source = "BVLC Caffe's recurrent_layer and rnn_layer (Donahue et al., arXiv 1411.4389). With "
                         "expose_hidden gradients flow through h_0 and h_T; the original gives none (`propagate_down: "
                         "false` does so here). lstm_param is read where recurrent_param is not given.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 2 } } }
layer {
  name: "rnn"
  type: "RNN"
  bottom: "x"
  bottom: "cont"
  top: "o"
  recurrent_param {
    num_output: 5
    weight_filler { type: "uniform" min: -0.1 max: 0.1 }
    bias_filler { type: "constant" value: 0 }
  }
})"}};
}

}  // namespace moka

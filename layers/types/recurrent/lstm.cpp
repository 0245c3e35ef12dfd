// Caffe's LSTM (Donahue et al., arXiv 1411.4389): gates = W_xc x_t + b_c (+ W_xc_static x_static) + W_hc (cont_t
// h_{t-1}) in the order i, f, o, g.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/recurrent/recurrence.h"

namespace moka {
namespace {

void BuildLstm(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const RecurrentFields fields = ReadRecurrentFields(l, 2);
  const Sequence s = ReadSequence(l, fields, {"h", "c"});
  const int64_t rows = 4 * fields.outputs;
  const auto weight = [&](int index, int64_t columns) {
    return l.AddBlob(index, {rows, columns}, fields.weight_filler, ParameterRole::kWeight, fields.weight_field());
  };
  int index = 0;
  const ValueId w_x = weight(index++, b.shape(s.x)[1]);
  const ValueId bias = l.AddBlob(index++, {rows}, fields.bias_filler, ParameterRole::kBias, fields.bias_field());
  const ValueId w_fixed = s.fixed == kNoId ? kNoId : weight(index++, b.shape(s.fixed)[1]);
  const ValueId w_h = weight(index, fields.outputs);

  // What the inputs add to the gates, for all steps in one product.
  const Shape gates{s.steps, s.streams, rows};
  ValueId x = b.Reshape(Project(b, s.x, w_x, bias), gates);
  if (s.fixed != kNoId) x = WithFixed(b, x, Project(b, s.fixed, w_fixed), fields.fixed_only_at_start);
  const ValueId going = b.Add1("stop_gradient", {l.bottom(1)});
  std::vector<ValueId> inputs{x, going, s.first[0], s.first[1], w_h};
  if (s.lengths != kNoId) inputs.push_back(s.lengths);
  const std::vector<ValueId> y = b.Add("lstm", inputs, {{"forget_bias", fields.forget_bias}});
  l.SetTop(0, y[0]);
  EndSequence(l, s, {y[1], y[2]});
}

}  // namespace

LayerDef LstmLayer() {
  return {
      .type = "LSTM",
      .doc =
          "Long short-term memory over x [T,N,..] with cont [T,N] (0 where a new sequence begins) and optionally "
          "x_static [N,..]; h [T,N,H], H = num_output. i, f, o = sigmoid, g = tanh of W_xc x + b_c (+ W_xc_static "
          "x_static) + W_hc cont h'; c = cont f c' + i g; h = o tanh(c). Blobs: W_xc [4H,D], b_c [4H], W_xc_static "
          "[4H,S] if there is x_static, W_hc [4H,H]. The last h and c are kept and begin the next run, without "
          "gradient; with expose_hidden they are bottoms h_0, c_0 and tops h_T, c_T [1,N,H] instead, through which "
          "gradients do flow (Caffe's gives none; propagate_down: false does so here). lstm_param is read where "
          "recurrent_param is not given. lstm_additional_forget_bias is added to f's sum; static_input_only_start "
          "counts x_static in the first step of a run only. A bottom lengths [N] after x_static says how many steps "
          "each stream has.",
      .min_bottoms = 2,
      .max_bottoms = 6,
      .max_tops = 3,
      .build = BuildLstm,
      .page = {
          .params = {"recurrent_param", "lstm_param"},
          .formula =
              "For t = 0..T-1, with h', c' the state before step t and m = cont[t] of each stream: `[i f o g] = "
              "W_xc x_t + b_c + W_xc_static x_static + W_hc (m h')` (parts of H rows), `c = m sigmoid(f) c' + "
              "sigmoid(i) tanh(g)`, `h = sigmoid(o) tanh(c)`. Top 0 is h of all steps, `[T,N,H]`; x is "
              "`[T,N,..]` with D elements a row, cont `[T,N]`, x_static `[N,..]` with S. Where m is 0 the state "
              "counts as 0 whatever it holds.\n\nThe state before step 0 is that after the last step of the run "
              "before (zeros at first); with `expose_hidden` it is the bottoms h_0, c_0 `[1,N,H]` (after "
              "x_static), and the tops 1 and 2 are h_T, c_T `[1,N,H]`. T is at most 8192.\n\nWith lengths `[N]` "
              "(a bottom of one axis after x_static and before h_0) stream n has ended at step lengths[n]: h is "
              "0 from there on, and its last state, which is kept or h_T and c_T, is that of its last step (PyTorch's "
              "pack_padded_sequence). What is over T counts as T; x after the end must be finite but counts for "
              "nothing. In a batch sorted by length rows end side by side, and the recurrent product leaves out "
              "each dozen that has ended.",
          .gradient = "x, x_static and all blobs: through all steps of this run back to its first. With expose_hidden "
                      "also h_0 and c_0. cont, lengths and the kept state get none.",
          .source =
              "Donahue et al., \"Long-term Recurrent Convolutional Networks\", 2014, arXiv 1411.4389; BVLC "
              "Caffe's recurrent_layer, lstm_layer and lstm_unit_layer. With expose_hidden gradients flow "
              "through h_0, c_0, h_T and c_T; the original gives none (`propagate_down: false` does so here). "
              "Older branches name the fields lstm_param; it is read where recurrent_param is not given. "
              "lstm_additional_forget_bias and static_input_only_start are DSCLRCN's (Liu, Han, arXiv 1610.01708).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 2 } } }
layer {
  name: "lstm"
  type: "LSTM"
  bottom: "x"
  bottom: "cont"
  top: "h"
  recurrent_param {
    num_output: 5
    weight_filler { type: "uniform" min: -0.1 max: 0.1 }
    bias_filler { type: "constant" value: 0 }
  }
})"}};
}

}  // namespace moka

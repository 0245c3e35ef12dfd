// Gated recurrent unit (Cho et al., arXiv 1406.1078) in the form of cuDNN and PyTorch, with LSTM's bottoms and tops.
// Gates in the order r, z, n: theirs, so that trained weights come over without moving a row. Their second bias counts
// for n alone, where the reset gate multiplies it; for r and z the two would only be added, so there is one.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/recurrent/recurrence.h"

namespace moka {
namespace {

void BuildGru(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const RecurrentFields fields = ReadRecurrentFields(l, 1);
  const Sequence s = ReadSequence(l, fields, {"h"});
  const int64_t rows = 3 * fields.outputs;
  const auto weight = [&](int index, int64_t columns) {
    return l.AddBlob(index, {rows, columns}, fields.weight_filler, ParameterRole::kWeight, fields.weight_field());
  };
  const auto bias = [&](int index, int64_t count) {
    return l.AddBlob(index, {count}, fields.bias_filler, ParameterRole::kBias, fields.bias_field());
  };
  int index = 0;
  const ValueId w_x = weight(index++, b.shape(s.x)[1]);
  const ValueId b_x = bias(index++, rows);
  const ValueId w_fixed = s.fixed == kNoId ? kNoId : weight(index++, b.shape(s.fixed)[1]);
  const ValueId w_h = weight(index++, fields.outputs);
  const ValueId b_n = bias(index, fields.outputs);

  // What the inputs add to the gates, for all steps in one product.
  ValueId x = b.Reshape(Project(b, s.x, w_x, b_x), {s.steps, s.streams, rows});
  if (s.fixed != kNoId) x = WithFixed(b, x, Project(b, s.fixed, w_fixed));
  const ValueId going = b.Add1("stop_gradient", {l.bottom(1)});
  std::vector<ValueId> inputs{x, going, s.first[0], w_h, b_n};
  if (s.lengths != kNoId) inputs.push_back(s.lengths);
  const std::vector<ValueId> y = b.Add("gru", inputs);
  l.SetTop(0, y[0]);
  EndSequence(l, s, {y[1]});
}

}  // namespace

LayerDef GruLayer() {
  return {
      .type = "GRU",
      .doc =
          "Gated recurrent unit over x [T,N,..] with cont [T,N] (0 where a new sequence begins) and optionally "
          "x_static [N,..]; h [T,N,H], H = recurrent_param.num_output. r, z = sigmoid and n = tanh of W_x x + b_x "
          "(+ W_static x_static) + W_h cont h', where n's part of the product, plus b_n, is first multiplied by r; "
          "h = (1 - z) n + z cont h'. Blobs: W_x [3H,D], b_x [3H], W_static [3H,S] if there is x_static, W_h "
          "[3H,H], b_n [H]. The last h is kept and begins the next run, without gradient; with expose_hidden it is "
          "bottom h_0 and top h_T [1,N,H] instead, through which gradients do flow. A bottom lengths [N] after "
          "x_static says how many steps each stream has.",
      .min_bottoms = 2,
      .max_bottoms = 5,
      .max_tops = 2,
      .build = BuildGru,
      .page = {
          .params = {"recurrent_param"},
          .formula =
              "For t = 0..T-1, with h' the state before step t and m = cont[t] of each stream: `[a_r a_z a_n] = "
              "W_x x_t + b_x + W_static x_static` and `[u_r u_z u_n] = W_h (m h')` (parts of H rows), `r = "
              "sigmoid(a_r + u_r)`, `z = sigmoid(a_z + u_z)`, `n = tanh(a_n + r (u_n + b_n))`, `h = (1 - z) n + "
              "z m h'`. Top 0 is h of all steps, `[T,N,H]`; x is `[T,N,..]` with D elements a row, cont "
              "`[T,N]`, x_static `[N,..]` with S. Where m is 0 the state counts as 0 whatever it holds. Blobs "
              "in order: W_x `[3H,D]`, b_x `[3H]`, W_static `[3H,S]` if there is x_static, W_h `[3H,H]`, b_n "
              "`[H]`.\n\nThe state before step 0 is that after the last step of the run before (zeros at "
              "first); with `expose_hidden` it is the last bottom, h_0 `[1,N,H]`, and top 1 is h_T `[1,N,H]`. T "
              "is at most 8192.\n\nWith lengths `[N]` (a bottom of one axis after x_static and before h_0) stream n "
              "has ended at step lengths[n]: h is 0 from there on, and its last state, which is kept or h_T, is "
              "that of its last step (PyTorch's pack_padded_sequence). What is over T counts as T; x "
              "after the end must be finite but counts for nothing. In a batch sorted by length rows end side by "
              "side, and the recurrent product leaves out each dozen that has ended.\n\nWeights of torch.nn.GRU: W_x = "
              "weight_ih, W_h = weight_hh, b_x = bias_ih + "
              "bias_hh but for the last H rows, which are bias_ih's, and b_n = the last H of bias_hh.",
          .gradient = "x, x_static and all blobs: through all steps of this run back to its first. With expose_hidden "
                      "also h_0. cont, lengths and the kept state get none.",
          .source = "Cho et al., \"Learning Phrase Representations using RNN Encoder-Decoder\", 2014, arXiv 1406.1078. "
                    "The reset gate stands after the recurrent product and the gates in the order r, z, n, as in "
                    "cuDNN and PyTorch; Caffe has no GRU. The bottoms and tops are those of its LSTM.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 2 } } }
layer {
  name: "gru"
  type: "GRU"
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

// Caffe's LSTM (Donahue et al., arXiv 1411.4389): gates = W_xc x_t + b_c (+ W_xc_static x_static) + W_hc (cont_t
// h_{t-1}) in the order i, f, o, g.
#include "layers/front/fields.h"
#include "layers/front/recurrent/layers.h"
#include "layers/front/recurrent/recurrence.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
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

  const std::vector<ValueId> x = StepsOf(l, Project(b, s.x, w_x, bias), s.steps);
  const ValueId fixed = s.fixed == kNoId ? kNoId : Project(b, s.fixed, w_fixed);
  LstmCell cell{.c = s.first[1], .h = s.first[0]};
  std::vector<ValueId> h;
  for (size_t t = 0; t < x.size(); ++t) {
    const ValueId before = Project(b, Continued(b, cell.h, s.going[t]), w_h);
    const ValueId gates =
        fixed == kNoId ? b.Pointwise("x0+x1", {before, x[t]}) : b.Pointwise("x0+x1+x2", {before, x[t], fixed});
    cell = NextCell(b, gates, cell.c, s.going[t]);
    h.push_back(cell.h);
  }
  l.SetTop(0, b.Reshape(JoinSteps(b, h), {s.steps, s.streams, fields.outputs}));
  EndSequence(l, s, {cell.h, cell.c});
}

}  // namespace

LayerDef LstmLayer() {
  return {.type = "LSTM",
          .doc =
              "Long short-term memory over x [T,N,..] with cont [T,N] (0 where a new sequence begins) and optionally "
              "x_static [N,..]; h [T,N,H], H = num_output. i, f, o = sigmoid, g = tanh of W_xc x + b_c (+ W_xc_static "
              "x_static) + W_hc cont h'; c = cont f c' + i g; h = o tanh(c). Blobs: W_xc [4H,D], b_c [4H], W_xc_static "
              "[4H,S] if there is x_static, W_hc [4H,H]. The last h and c are kept and begin the next run, without "
              "gradient; with expose_hidden they are bottoms h_0, c_0 and tops h_T, c_T [1,N,H] instead, through which "
              "gradients do flow (Caffe's gives none; propagate_down: false does so here). lstm_param is read where "
              "recurrent_param is not given.",
          .min_bottoms = 2,
          .max_bottoms = 5,
          .max_tops = 3,
          .build = Build};
}

}  // namespace moka

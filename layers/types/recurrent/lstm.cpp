// Caffe's LSTM (Donahue et al., arXiv 1411.4389): gates = W_xc x_t + b_c (+ W_xc_static x_static) + W_hc (cont_t
// h_{t-1}) in the order i, f, o, g.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
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

  // The part that the inputs add to the gates, for all steps in one product.
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
  return {.type = "LSTM",
          .min_bottoms = 2,
          .max_bottoms = 6,
          .max_tops = 3,
          .build = BuildLstm,
          .traits = {.is_recurrent = true},
          .needs = NeedSteps,
          .bottoms = BottomsOfRecurrence,
          .params = {"recurrent_param", "lstm_param"}};
}

}  // namespace moka

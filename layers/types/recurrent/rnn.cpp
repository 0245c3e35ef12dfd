// Caffe's RNN: h_t = tanh(W_hh (cont_t h_{t-1}) + W_xh x_t + b_h (+ W_xh_static x_static)), o_t = tanh(W_ho h_t + b_o).
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
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
  return {.type = "RNN",
          .min_bottoms = 2,
          .max_bottoms = 4,
          .max_tops = 2,
          .build = BuildRnn,
          .traits = {.is_recurrent = true},
          .needs = NeedSteps,
          .bottoms = BottomsOfRecurrence,
          .params = {"recurrent_param", "lstm_param"}};
}

}  // namespace moka

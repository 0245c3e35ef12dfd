// Gated recurrent unit (Cho et al., arXiv 1406.1078) in the form of cuDNN and PyTorch, with LSTM's bottoms and tops.
// Gates in the order r, z, n: theirs, so that trained weights come over without moving a row. Their second bias counts
// for n alone, where the reset gate multiplies it; for r and z the two would only be added, so there is one.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
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

  // The part that the inputs add to the gates, for all steps in one product.
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
  return {.type = "GRU",
          .min_bottoms = 2,
          .max_bottoms = 5,
          .max_tops = 2,
          .build = BuildGru,
          .traits = {.is_recurrent = true},
          .needs = NeedSteps,
          .bottoms = BottomsOfRecurrence,
          .params = {"recurrent_param"}};
}

}  // namespace moka

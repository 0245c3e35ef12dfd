// -t log s(x) - (1-t) log(1 - s(x)), s the sigmoid, written so that no exponential overflows:
// x >= 0: x (1-t) + log(1 + exp(-x)); x < 0: log(1 + exp(x)) - x t.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"

namespace moka {
namespace {

// The sum of a term over all elements, a scalar.
ValueId Sum(const GraphBuilder& b, const std::vector<ValueId>& inputs, const std::string& term) {
  Ints axes;
  for (int i = 0; i < b.shape(inputs[0]).rank(); ++i) axes.push_back(i);
  return b.Reshape(b.Add1("reduce_sum", inputs, {{"expr", term}, {"axes", axes}}), Shape{});
}

void BuildSigmoidCrossEntropyLoss(LayerBuilder& l) {
  const LossParameter& p = l.param().loss_param();
  const Shape x = l.shape(0);
  l.Check(l.shape(1).Count() == x.Count(), "bottom[1]",
          StrCat("the targets ", l.shape(1).ToString(), " must be as many as the inputs ", x.ToString()));
  l.Check(x.rank() >= 1, "bottom[0]", "the bottom needs a batch axis");
  const GraphBuilder& b = l.b();
  const ValueId target = b.Reshape(b.Add1("stop_gradient", {l.bottom(1)}), x);
  std::string term = "select(ge(x0,0),x0*(1-x1)+log(1+exp(-x0)),log(1+exp(x0))-x0*x1)";
  LossCounts counts{.batch = x[0], .positions = x.Count(), .valid = kNoId};
  if (p.has_ignore_label()) {
    // The target's integer part decides, as in Caffe.
    const auto of = [&](std::string_view t) {
      return StrCat("eq(sign(", t, ")*floor(abs(", t, ")),", Number(p.ignore_label()), ")");
    };
    term = StrCat("select(", of("x1"), ",0,", term, ")");
    counts.valid = Sum(b, {target}, StrCat("1-", of("x0")));
  }
  std::vector<ValueId> inputs{l.bottom(0), target};
  if (l.bottom_count() == 3) {  // MNC's weights
    l.Check(l.shape(2).Count() == x.Count(), "bottom[2]",
            StrCat("there must be a weight for each of the ", x.Count(), " elements, found ", l.shape(2).ToString()));
    inputs.push_back(b.Reshape(b.Add1("stop_gradient", {l.bottom(2)}), x));
    term = StrCat("x2*", term);
  }
  l.SetTop(0, Normalized(l, Sum(b, inputs, term), counts, LossParameter::BATCH_SIZE));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef SigmoidCrossEntropyLossLayer() {
  return {
      .type = "SigmoidCrossEntropyLoss",
      .doc =
          "The cross entropy of sigmoid(x) and targets in [0,1], summed over all elements and divided "
          "as loss_param.normalization says (default BATCH_SIZE), a scalar. The second bottom holds as "
          "many targets as the first has elements, an optional third a weight for each; loss_param.ignore_label "
          "leaves out targets of that value.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .auto_tops = true,
      .build = BuildSigmoidCrossEntropyLoss,
      .page = {.params = {"loss_param"},
               .formula = "`L = (1/Z) * sum e(x, t)` over all elements, `e = -t log s(x) - (1-t) log(1 - s(x))` with s "
                          "the sigmoid, computed as `x (1-t) + log(1 + exp(-x))` for x >= 0 and `log(1 + exp(x)) - x "
                          "t` otherwise. With ignore_label, elements whose target has that integer part add 0. An "
                          "optional third bottom multiplies each e. L is a scalar.\n\nZ by `normalization`: BATCH_SIZE "
                          "(default) the batch N, FULL the number of "
                          "elements, VALID the number of elements that are not ignored (at least 1), NONE 1, PRE_FIXED "
                          "pre_fixed_normalizer. Without it, `normalize: true` is VALID and false BATCH_SIZE.",
               .gradient = "`dx = (loss_weight / Z) * w * (s(x) - t)`, w the third bottom or 1, 0 where the target is "
                           "ignored. None for "
                           "the targets and weights.",
               .source = "BVLC Caffe's sigmoid_cross_entropy_loss_layer; PRE_FIXED is Intel's Caffe.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "target" type: "Input" top: "target" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "loss"
  type: "SigmoidCrossEntropyLoss"
  bottom: "x"
  bottom: "target"
  top: "loss"
  loss_param { normalization: FULL }
})"}};
}

}  // namespace moka

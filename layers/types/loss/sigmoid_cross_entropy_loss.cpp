// -t log s(x) - (1-t) log(1 - s(x)), s the sigmoid, written so that no exponential overflows:
// x >= 0: x (1-t) + log(1 + exp(-x)); x < 0: log(1 + exp(x)) - x t.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildSigmoidCrossEntropyLoss(LayerBuilder& l) {
  const LossParameter& p = l.param().loss_param();
  const Shape x = l.shape(0);
  l.Check(l.shape(1).Count() == x.Count(), "bottom[1]",
          StrCat("the targets ", l.shape(1).ToString(), " must be as many as the inputs ", x.ToString()));
  l.Check(x.rank() >= 1, "bottom[0]", "the bottom needs a batch axis");
  const GraphBuilder& b = l.b();
  const ValueId target = b.Reshape(b.Add1("stop_gradient", {l.bottom(1)}), x);
  const Term score = Term::Input(0);
  const Term t = Term::Input(1);
  // log(1 + exp(score)) - t score.
  Term loss = Select(score >= 0, score * (1 - t) + Log(1 + Exp(-score)), Log(1 + Exp(score)) - score * t);
  LossCounts counts{.batch = x[0], .positions = x.Count(), .valid = kNoId};
  if (p.has_ignore_label()) {
    // The target's integer part decides, as in Caffe.
    const auto is_ignored = [&](const Term& label) { return Sign(label) * Floor(Abs(label)) == p.ignore_label(); };
    loss = Select(is_ignored(t), 0, loss);
    counts.valid = SumOf(l, 1 - is_ignored(Term::Of(target)));
  }
  std::vector<ValueId> inputs{l.bottom(0), target};
  if (l.bottom_count() == 3) {  // MNC's weights
    l.Check(l.shape(2).Count() == x.Count(), "bottom[2]",
            StrCat("there must be a weight for each of the ", x.Count(), " elements, found ", l.shape(2).ToString()));
    inputs.push_back(b.Reshape(b.Add1("stop_gradient", {l.bottom(2)}), x));
    loss = Term::Input(2) * loss;
  }
  l.SetTop(0, Normalized(l, SumOf(l, loss, inputs), counts, LossParameter::BATCH_SIZE));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef SigmoidCrossEntropyLossLayer() {
  return {.type = "SigmoidCrossEntropyLoss",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = BuildSigmoidCrossEntropyLoss,
          .traits = {.is_loss = true, .scores_type = "Sigmoid", .is_negative_without = "targets from 0 to 1"},
          .needs = NeedEqualCounts,
          .params = {"loss_param"}};
}

}  // namespace moka

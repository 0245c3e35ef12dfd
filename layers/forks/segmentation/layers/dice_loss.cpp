// DiceLoss: 1 minus the mean over the classes of twice the overlap of probabilities and labels over their sum. Each
// class counts alike however few its pixels are, so beside a SoftmaxWithLoss it pulls towards a better mean
// intersection over union.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildDiceLoss(LayerBuilder& l) {
  const DiceLossParameter& p = l.param().dice_loss_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2 && x[1] >= 2, "bottom[0]",
          StrCat("the scores must be [N,C,..] of at least 2 classes, found ", x.ToString()));
  CheckLabelCount(l, 1);
  const double smooth = Finite(l, "dice_loss_param.smooth", p.smooth());
  l.Check(smooth > 0, "dice_loss_param.smooth", StrCat("dice_loss_param.smooth must be above 0, found ", smooth));
  const GraphBuilder& b = l.b();
  Attributes mask{{"shape", DimsOf(x)}, {"axis", int64_t{1}}};
  if (p.has_ignore_label()) {
    mask.Set("has_ignore", true);
    mask.Set("ignore_label", int64_t{p.ignore_label()});
  }
  const ValueId label = b.Add1("label_mask", {Constant(l, l.bottom(1))}, mask);
  // A pixel whose mask is empty is ignored: its probabilities count nowhere.
  const ValueId counts = b.ReduceSum(label, {1});
  const ValueId probability = b.Add1("softmax", {l.bottom(0)}, {{"axis", int64_t{1}}});
  const ValueId kept = b.Pointwise("x0*x1", {probability, counts});
  Ints axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  const auto sums = [&](const std::string& expr, const std::vector<ValueId>& inputs) {
    return b.Reshape(b.Add1("reduce_sum", inputs, {{"expr", expr}, {"axes", axes}}), {x[1]});
  };
  const ValueId both = sums("x0*x1", {kept, label});
  const ValueId area = sums(p.squared() ? "x0*x0" : "x0", {kept});
  const ValueId labelled = sums("x0", {label});
  const Term s = Decimal(smooth);
  const Term is_present = Term::Of(labelled) > 0;
  const Term sum = Term::Of(area) + Term::Of(labelled) + s;
  const ValueId dice = b.Pointwise(is_present * (2 * Term::Of(both) + s) / sum, {both, area, labelled});
  const ValueId present = b.Pointwise("gt(x0,0)", {labelled});
  l.SetTop(0, b.Pointwise("select(gt(x1,0),1-x0/max(x1,1),0)", {SumOf(l, "x0", {dice}), SumOf(l, "x0", {present})}));
  l.NoteUnequal("is a quotient of sums over a batch, which is a part of it on each rank");
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef DiceLossLayer() {
  return {.type = "DiceLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildDiceLoss,
          .traits = {.is_loss = true},
          .params = {"dice_loss_param"}};
}

}  // namespace moka

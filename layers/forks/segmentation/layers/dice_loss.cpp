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
  Attributes mask{{"shape", Ints(x.dims().begin(), x.dims().end())}, {"axis", int64_t{1}}};
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
  const std::string s = Number(smooth);
  const ValueId dice = b.Pointwise(StrCat("gt(x2,0)*(2*x0+", s, ")/(x1+x2+", s, ")"), {both, area, labelled});
  const ValueId present = b.Pointwise("gt(x0,0)", {labelled});
  l.SetTop(0, b.Pointwise("select(gt(x1,0),1-x0/max(x1,1),0)", {SumOf(l, "x0", {dice}), SumOf(l, "x0", {present})}));
  l.NoteUnequal("is a quotient of sums over a batch, which is a part of it on each rank");
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef DiceLossLayer() {
  return {
      .type = "DiceLoss",
      .doc =
          "1 minus the mean Dice coefficient, over the classes that the batch's labels have, of softmax probabilities "
          "and labels. Bottoms: scores [N,C,..] and a label for each position. dice_loss_param: ignore_label, smooth, "
          "squared.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildDiceLoss,
      .page = {
          .params = {"dice_loss_param"},
          .formula =
              "With p the softmax of x along axis 1, t one-hot labels and sums over all positions of the batch whose "
              "label is not ignored: `d_c = (2 sum(p_c t_c) + smooth) / (sum(p_c) + sum(t_c) + smooth)`, with squared "
              "`sum(p_c^2)` in place of `sum(p_c)`; `y = 1 - mean of d_c` over the classes with `sum(t_c) > 0`, a "
              "scalar; 0 where no label counts. Its loss weight is 1 unless given.",
          .gradient = "x: that of the formula through the softmax; 0 at ignored labels. The labels get none.",
          .source = "Milletari, Navab, Ahmadi, \"V-Net\", 2016, arXiv 1606.04797 (squared), for several classes as in "
                    "Sudre et al., arXiv 1707.03237.",
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 2 dim: 4 dim: 8 dim: 8 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } } }
layer {
  name: "loss"
  type: "DiceLoss"
  bottom: "scores"
  bottom: "label"
  top: "loss"
  dice_loss_param { ignore_label: 255 }
})"}};
}

}  // namespace moka

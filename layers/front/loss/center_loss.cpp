// Center loss (Wen et al., ECCV 2016; ydwen/caffe-face): features are drawn to the centre of their class. The centres
// are a blob that moves by a rule of its own: of class j it is given sum of (c_j - x) over the batch's items of class
// j, divided by 1 + their count. The loss's weight has no part in that, so it is divided out.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"

namespace moka {
namespace {

// The weight with which the top enters the net's loss.
double LossWeight(const LayerParameter& p) {
  const double weight = p.loss_weight_size() > 0 ? double{p.loss_weight(0)} : 1.0;
  return weight == 0 ? 1 : weight;
}

void Build(LayerBuilder& l) {
  const CenterLossParameter& p = l.param().center_loss_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "center_loss_param.axis", p.axis(), x);
  const int64_t count = x.Count(0, axis);
  const int64_t length = x.Count(axis, x.rank());
  l.Check(p.num_output() >= 1, "center_loss_param.num_output",
          "center_loss_param.num_output, the number of classes, must be given and at least 1");
  l.Check(p.distance_type() == "L2", "center_loss_param.distance_type",
          StrCat("center_loss_param.distance_type must be \"L2\", found \"", p.distance_type(), "\""));
  l.Check(l.shape(1).Count() == count, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have ", count, " labels, found ", l.shape(1).ToString()));
  const ValueId centers = l.AddBlob(0, {int64_t{p.num_output()}, length}, p.center_filler(), ParameterRole::kWeight,
                                    "center_loss_param.center_filler");
  const ValueId rows = b.Reshape(l.bottom(0), {count, length});
  const ValueId label = b.Reshape(Constant(l, l.bottom(1)), {count});
  const ValueId center = b.Add1("reindex", {centers, label});  // [N,D]: of each item's class
  const ValueId sum = SumOf(l, "(x0-x1)*(x0-x1)", {rows, center});
  // Items of the same class, [N,1].
  const ValueId peers = b.Add1("reduce_sum", {b.Reshape(label, {count, 1}), b.Reshape(label, {1, count})},
                               {{"expr", std::string("eq(x0,x1)")}, {"axes", Ints{1}}});
  const ValueId dx = b.Pointwise(StrCat("(x0-x1)/", count), {rows, center});
  const ValueId dc = b.Pointwise(StrCat("(x1-x0)/(x2+1)/", Number(LossWeight(l.param()))), {rows, center, peers});
  const ValueId loss = b.Pointwise(StrCat("x0/", (Size(2) * count).value()), {sum});
  l.SetTop(0, WithGradients(l, loss, {{rows, dx}, {center, dc}}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef CenterLossLayer() {
  return {
      .type = "CenterLoss",
      .doc =
          "Bottoms: features, from center_loss_param.axis on vectors of D elements, and labels. The sum of "
          "|x - c[label]|^2 divided by twice the batch. The centres are the blob [num_output, D] "
          "(center_filler); whatever the loss's weight, the gradient of class j's centre is the sum of c_j - x over "
          "the batch's items of class j, divided by 1 + their count.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = Build,
      .page = {
          .params = {"center_loss_param"},
          .formula =
              "`y = sum over items i of |x_i - c[label_i]|^2 / (2 M)`, a scalar. x's axes from axis (default 1) on are "
              "one vector of D elements, M is the product of its dimensions before axis, and bottom 1 has M labels "
              "from 0 to num_output - 1. c (blob 0) is [num_output, D]. Its loss weight is 1 unless given.",
          .gradient = "`dx_i = dy * (x_i - c[label_i]) / M`.\n\n`dc[j] = dy / w * sum of (c[j] - x_i) / (1 + n_j)` "
                      "over the n_j items of class j, w the loss weight (1 if it is 0): whatever the weight, the "
                      "centres move as if it were 1. Labels get none.",
          .source = "A discriminative feature learning approach for deep face recognition (Wen, Zhang, Li, Qiao, ECCV "
                    "2016); ydwen's caffe-face, center_loss_layer. distance_type must be L2.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "CenterLoss"
  bottom: "x"
  bottom: "label"
  top: "loss"
  center_loss_param { num_output: 5 center_filler { type: "xavier" } }
  loss_weight: 0.01
})"}};
}

}  // namespace moka

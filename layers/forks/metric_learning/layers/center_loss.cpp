// Center loss (Wen et al., ECCV 2016; ydwen/caffe-face): features are drawn to the centre of their class. The centres
// are a blob that moves by a rule of its own: of class j it is given sum of (c_j - x) over the batch's items of class
// j, divided by 1 + their count. The loss's weight has no part in that, so it is divided out. A later version
// (ydwen/centerloss) has a margin, within which features cost nothing, a second top, and divides by the count alone.
#include "core/text.h"
#include "layers/forks/metric_learning/layers/center_margin.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// The later version of the layer, which has two tops and a margin.
bool HasMargin(const LayerBuilder& l) {
  const CenterLossParameter& p = l.param().center_loss_param();
  return l.top_count() > 1 || p.has_margin() || p.has_type() || p.has_eps();
}

// What both versions compute with.
struct Centres {
  ValueId rows;    // [M,D]
  ValueId center;  // [M,D]: of each item's class
  ValueId peers;   // [M,1]: items of the same class
  int64_t count;   // M
};

// p |d| of each item's difference d from its centre is what the loss squares, and p d / M the gradient.
void BuildWithMargin(LayerBuilder& l, const Centres& c) {
  const CenterLossParameter& p = l.param().center_loss_param();
  const GraphBuilder& b = l.b();
  const double margin = Finite(l, "center_loss_param.margin", p.margin());
  const double eps = Finite(l, "center_loss_param.eps", p.eps());
  l.Check(eps > 0, "center_loss_param.eps", StrCat("center_loss_param.eps must be above 0, found ", eps));
  const bool is_cosine = p.type() == CenterLossParameter::COSINE;
  l.Check(!is_cosine || (margin > -1 && margin < 1), "center_loss_param.margin",
          StrCat("with type COSINE center_loss_param.margin must be above -1 and below 1, found ", margin));
  const ValueId part = DrawnPart(l, {c.rows, c.center}, is_cosine, margin, eps);
  const ValueId difference = b.Pointwise("(x0-x1)*x2", {Constant(l, c.rows), Constant(l, c.center), part});
  const ValueId dx = b.Pointwise(StrCat("x0/", c.count), {difference});
  const ValueId dc = b.Pointwise(StrCat("-x0/x1/", Number(LossWeightOf(l))), {difference, c.peers});
  const ValueId sum = SumOf(l, "x0*x0", {difference});
  const ValueId loss = b.Pointwise(StrCat("x0/", (Size(2) * c.count).value()), {sum});
  l.SetTop(0, WithGradients(l, loss, {{c.rows, dx}, {c.center, dc}}));
  l.NoteUnequal("moves its centres by the number of a class's items in a batch, which is a part of it on each rank");
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, SumOf(l, "abs(x0)", {part}));
}

void BuildCenterLoss(LayerBuilder& l) {
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
  const ValueId peers = PeersOf(l, label, count);
  if (HasMargin(l)) return BuildWithMargin(l, {rows, center, peers, count});
  const ValueId sum = SumOf(l, "(x0-x1)*(x0-x1)", {rows, center});
  const ValueId dx = b.Pointwise(StrCat("(x0-x1)/", count), {rows, center});
  const ValueId dc = b.Pointwise(StrCat("(x1-x0)/(x2+1)/", Number(LossWeightOf(l))), {rows, center, peers});
  const ValueId loss = b.Pointwise(StrCat("x0/", (Size(2) * count).value()), {sum});
  l.SetTop(0, WithGradients(l, loss, {{rows, dx}, {center, dc}}));
  l.NoteUnequal("moves its centres by the number of a class's items in a batch, which is a part of it on each rank");
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
          "the batch's items of class j, divided by 1 + their count. With a second top, margin, type or eps it is the "
          "later version: features are drawn to within margin of their centre only, an Euclidean distance (type L2) or "
          "a cosine (COSINE); the second top is the sum of the parts of the way they are drawn, and the centres' "
          "gradient is divided by the count.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildCenterLoss,
      .page = {
          .params = {"center_loss_param"},
          .formula =
              "`y = sum over items i of |x_i - c[label_i]|^2 / (2 M)`, a scalar. x's axes from axis (default 1) on are "
              "one vector of D elements, M is the product of its dimensions before axis, and bottom 1 has M labels "
              "from 0 to num_output - 1. c (blob 0) is [num_output, D]. Its loss weight is 1 unless given.\n\nWith a "
              "second top, margin, type or eps: `y = sum of p_i^2 |d_i|^2 / (2 M)`, `d_i = x_i - c[label_i]`, top 1 is "
              "the sum of p_i. Type L2: `p = max(0, (|d| - margin) / |d|)`. COSINE: p is the step for which x - p d "
              "and "
              "c make an angle of cosine margin, 0 where that of x and c already is at least margin.",
          .gradient =
              "`dx_i = dy * (x_i - c[label_i]) / M`.\n\n`dc[j] = dy / w * sum of (c[j] - x_i) / (1 + n_j)` "
              "over the n_j items of class j, w the loss weight (1 if it is 0): whatever the weight, the "
              "centres move as if it were 1. Labels get none.\n\nWith a margin: `dx_i = dy p_i d_i / M`, `dc[j] "
              "= -dy / w * sum of p_i d_i / n_j`; top 1 has none.",
          .source = "A discriminative feature learning approach for deep face recognition (Wen, Zhang, Li, Qiao, ECCV "
                    "2016); ydwen's caffe-face, center_loss_layer, and the later one of ydwen/centerloss (Wen et al., "
                    "IJCV 2019). "
                    "distance_type must be L2.",
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

// Centre loss (Wen et al., ECCV 2016; ydwen/caffe-face): features are drawn to the centre of their class. The centres
// are a blob that moves by a rule of its own: of class j it is given sum of (c_j - x) over the batch's items of class
// j, divided by 1 + their count. The loss's weight has no part in that, so it is divided out. A later version
// (ydwen/centerloss) has a margin, within which features cost nothing, a second top, and divides by the count alone.
#include "core/text.h"
#include "layers/forks/metric_learning/layers/center_margin.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// The later version of the layer, which has two tops and a margin.
bool HasMargin(const LayerBuilder& l) {
  const CenterLossParameter& p = l.param().center_loss_param();
  return l.top_count() > 1 || p.has_margin() || p.has_type() || p.has_eps();
}

// The values that both versions compute with.
struct Centers {
  ValueId rows;    // [M,D]
  ValueId center;  // [M,D]: of each item's class
  ValueId peers;   // [M,1]: items of the same class
  int64_t count;   // M
};

// p |d| of each item's difference d from its centre is what the loss squares, and p d / M the gradient.
void BuildWithMargin(LayerBuilder& l, const Centers& c) {
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
  const ValueId dx = Computed(b, Term::Of(difference) / c.count);
  const ValueId dc = Computed(b, -Term::Of(difference) / Term::Of(c.peers) / Decimal(LossWeightOf(l)));
  const ValueId sum = SumOf(l, "x0*x0", {difference});
  const ValueId loss = Computed(b, Term::Of(sum) / (Size(2) * c.count).value());
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
  const Term feature = Term::Of(rows);
  const Term middle = Term::Of(center);
  const ValueId dx = Computed(b, (feature - middle) / count);
  const ValueId dc = Computed(b, (middle - feature) / (Term::Of(peers) + 1) / Decimal(LossWeightOf(l)), {rows, center});
  const ValueId loss = Computed(b, Term::Of(sum) / (Size(2) * count).value());
  l.SetTop(0, WithGradients(l, loss, {{rows, dx}, {center, dc}}));
  l.NoteUnequal("moves its centres by the number of a class's items in a batch, which is a part of it on each rank");
  l.SetLoss(0, 1);
}

void NeedsOfCenterLoss(const ShapeReader& reader) { NeedNumberAnItem(reader, 1); }

}  // namespace

LayerDef CenterLossLayer() {
  return {.type = "CenterLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildCenterLoss,
          .traits = {.is_loss = true},
          .needs = NeedsOfCenterLoss,
          .params = {"center_loss_param"}};
}

}  // namespace moka

// oftenliu's layers of MTCNN's training nets (its Caffe's often_mtcnn_*_layer.cpp). A label is 0 (no face), 1 (a face),
// -1 (part of a face: only its box counts) or -2 (only its landmarks count).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

constexpr const char* kHasClass = "1-max(eq(x0,-1),eq(x0,-2))";

// The labels of a bottom as [N], without gradient. Errors: kConfig unless it has one number for each of the N items of
// bottom 0, of rank 2 or more.
ValueId LabelsOf(const LayerBuilder& l, int bottom) {
  const Shape x = l.shape(0);
  const Shape labels = l.shape(bottom);
  l.Check(x.rank() >= 2 && labels.Count() == x[0], StrCat("bottom[", bottom, "]"),
          StrCat("bottom \"", l.param().bottom(bottom), "\" must have a label for each item of \"", l.param().bottom(0),
                 "\" ", x.ToString(), ", found ", labels.ToString()));
  return Constant(l, l.b().Reshape(l.bottom(bottom), Shape{x[0]}));
}

void BuildBridge(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const ValueId labels = LabelsOf(l, 1);
  const ValueId rows = b.Reshape(l.bottom(0), Shape{x[0], x.Count(1, x.rank())});
  const ValueId mask = b.Reshape(b.Pointwise(kHasClass, {labels}), Shape{x[0], 1});
  l.SetTop(0, b.Reshape(b.Pointwise("select(x1,x0,0)", {rows, mask}), x));
  l.SetTop(1, labels);
}

// 1 for the floor(0.7 n) largest of the n losses that count; of equal ones the earlier come first.
ValueId Hardest(const LayerBuilder& l, ValueId losses, ValueId counts, int64_t items) {
  const GraphBuilder& b = l.b();
  const ValueId place = b.Add1("filter_index", {b.Full(Shape{items}, 1)});
  const ValueId value = b.Pointwise("select(x1,x0,-1)", {losses, counts});
  const auto column = [&](ValueId v) { return b.Reshape(v, Shape{items, 1}); };
  const auto row = [&](ValueId v) { return b.Reshape(v, Shape{1, items}); };
  const ValueId is_before =
      b.Pointwise("max(gt(x1,x0),min(eq(x1,x0),lt(x3,x2)))", {column(value), row(value), column(place), row(place)});
  const ValueId rank = b.Reshape(b.ReduceSum(is_before, {1}), Shape{items});
  return b.Pointwise("min(x1,lt(x0,floor(7*x2/10)))", {rank, counts, b.SumAll(counts)});
}

void BuildSoftmaxLoss(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const LossParameter& p = l.param().loss_param();
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), x);
  l.Check(axis == 1 && x.rank() >= 2 && x.Count(2, x.rank()) == 1, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be scores [N,C] along axis 1, found ", x.ToString()));
  l.Check(!p.has_ignore_label(), "loss_param.ignore_label",
          "loss_param.ignore_label has no effect here: labels -1 and -2 are left out");
  const int64_t items = x[0];
  const ValueId labels = LabelsOf(l, 1);
  const ValueId counts = b.Pointwise(kHasClass, {labels});
  const ValueId classes = b.Pointwise("select(x1,x0,-1)", {labels, counts});
  const std::vector<ValueId> soft =
      b.Add("softmax_losses", {b.Reshape(l.bottom(0), Shape{items, x[1]}), classes},
            {{"axis", int64_t{1}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}, {"smoothing", 0.0}});
  const bool is_valid =
      p.has_normalization() ? p.normalization() == LossParameter::VALID : !p.has_normalize() || p.normalize();
  l.Check(!p.has_normalization() || p.normalization() != LossParameter::PRE_FIXED, "loss_param.normalization",
          "loss_param.normalization must be FULL, VALID, BATCH_SIZE or NONE");
  const bool is_none = p.has_normalization() && p.normalization() == LossParameter::NONE;
  const auto mean = [&](ValueId sum, ValueId count, std::string_view use) {
    if (is_valid) return OverCount(l, sum, count, use);
    return is_none ? SumOfRanks(l, sum) : Computed(b, Term::Of(sum) / items);
  };
  l.NoteUnequal("takes the hardest of a batch, which is a part of it on each rank");
  const ValueId hardest = Hardest(l, Constant(l, soft[0]), counts, items);
  // The value is the mean of all, the gradient that of the mean of the hardest.
  const ValueId taught = mean(b.SumAll(b.Pointwise("x0*x1", {soft[0], hardest})), b.SumAll(hardest), "hardest");
  const ValueId all = mean(b.SumAll(Constant(l, soft[0])), b.SumAll(counts), "count");
  l.SetTop(0, b.Pointwise("x0+(x1-x2)", {all, taught, Constant(l, taught)}));
  if (l.top_count() > 1) l.SetTop(1, b.Reshape(soft[2], x));
  l.SetLoss(0, 1);
}

void BuildAccuracy(LayerBuilder& l) {
  const AccuracyParameter& p = l.param().accuracy_param();
  const int axis = AxisOf(l, "accuracy_param.axis", p.axis(), l.shape(0));
  const int64_t classes = l.shape(0)[axis];
  l.Check(p.top_k() >= 1 && p.top_k() <= classes, "accuracy_param.top_k",
          StrCat("accuracy_param.top_k must be from 1 to the ", classes, " classes, found ", p.top_k()));
  l.Check(!p.has_ignore_label(), "accuracy_param.ignore_label",
          "accuracy_param.ignore_label has no effect here: labels -1 and -2 are left out");
  CheckLabelCount(l, axis);
  const ValueId labels = l.b().Pointwise("select(eq(x0,-2),-1,x0)", {l.bottom(1)});
  const std::vector<ValueId> tops = l.b().Add(
      "accuracy", {l.bottom(0), labels},
      {{"axis", int64_t{axis}}, {"top_k", int64_t{p.top_k()}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

// Half the mean, over the items for which `counts` (x0 the label) is 1, of the summed squared differences.
void BuildSquares(LayerBuilder& l, const std::string& counts) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape truth = l.shape(1);
  l.Check(
      x.rank() >= 2 && truth.rank() >= 2 && x[0] == truth[0] && x.Count(2, x.rank()) == 1 && x.Count() == truth.Count(),
      "bottom[1]",
      StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
             truth.ToString(), " must be [N,C] each"));
  const Shape rows{x[0], x[1]};
  const ValueId mask = b.Reshape(b.Pointwise(counts, {LabelsOf(l, 2)}), Shape{x[0], 1});
  const ValueId sum =
      SumOf(l, "select(x2,(x0-x1)*(x0-x1),0)", {b.Reshape(l.bottom(0), rows), b.Reshape(l.bottom(1), rows), mask});
  l.SetTop(0, b.Pointwise("0.5*x0", {OverCount(l, sum, b.SumAll(mask))}));
  l.SetLoss(0, 1);
}

void BuildBoxLoss(LayerBuilder& l) { BuildSquares(l, "1-max(eq(x0,0),eq(x0,-2))"); }
void BuildLandmarkLoss(LayerBuilder& l) { BuildSquares(l, "eq(x0,-2)"); }

}  // namespace

LayerDef OftenMtcnnAccuracyLayer() {
  return {.type = "OftenMtcnnAccuracy",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = BuildAccuracy,
          .params = {"accuracy_param"}};
}

LayerDef OftenMtcnnClassBridgeLayer() {
  return {.type = "OftenMtcnnClassBridge",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 2,
          .max_tops = 2,
          .build = BuildBridge};
}

LayerDef OftenMtcnnEuclideanLossLayer() {
  return {.type = "OftenMtcnnEuclideanLoss",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildBoxLoss,
          .traits = {.is_loss = true}};
}

LayerDef OftenMtcnnLandMarkLossLayer() {
  return {.type = "OftenMtcnnLandMarkLoss",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildLandmarkLoss,
          .traits = {.is_loss = true}};
}

LayerDef OftenMtcnnSoftmaxLossLayer() {
  return {.type = "OftenMtcnnSoftmaxLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = BuildSoftmaxLoss,
          .traits = {.is_loss = true},
          .params = {"loss_param", "softmax_param"}};
}

}  // namespace moka

// mtnet's Python layers (nnop/mtnet, heads and bodies of people with their poses): proposals matched with the true
// boxes [G,4] in one layer, labels and boxes to learn in others. A sample has as many rows as it can have at most: a
// row that is left has zeros, label -1 and true box -1, and no layer behind it learns from it. True boxes of zeros are
// padding. What fast_rcnn.config has there is the values of its recipe.
#include <algorithm>

#include "core/text.h"
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/forks/rcnn/layers/rpn.h"
#include "layers/net/random_stream.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

constexpr int64_t kBatch = 128;
constexpr int64_t kForeground = 32;

// `count` of the items for which `mask` [N] is 1, each set equally likely, as a mask; all if there are no more.
ValueId Drawn(LayerBuilder& l, ValueId mask, ValueId count, uint64_t draw) {
  const GraphBuilder& b = l.b();
  const Shape shape = b.shape(mask);
  const Term drawn = Rand(Term::Of(l.RandomKey()), static_cast<double>(RandomStreamOf(l) ^ draw));
  const ValueId order = Computed(b, Select(Term::Of(mask), 1 + drawn, 0));
  const ValueId before =
      b.Pointwise("gt(x1,x0)", {b.Reshape(order, Shape{shape[0], 1}), b.Reshape(order, Shape{1, shape[0]})});
  const ValueId rank = b.Reshape(b.ReduceSum(before, {1}), shape);
  return b.Pointwise("min(x0,lt(x1,x2))", {mask, rank, count});
}

// The indices of a mask's items, then -1, `most` of them.
ValueId First(const GraphBuilder& b, ValueId mask, int64_t most) {
  const ValueId index = b.Add1("filter_index", {mask});
  const int64_t items = b.shape(mask)[0];
  if (items <= most) return index;
  return b.Add("slice", {index}, {{"axis", int64_t{0}}, {"sizes", Ints{most, items - most}}})[0];
}

void CheckBoxes(const LayerBuilder& l, int bottom) {
  const Shape boxes = l.shape(bottom);
  l.Check(boxes.rank() == 2 && boxes[1] == 4, StrCat("bottom[", bottom, "]"),
          StrCat("bottom \"", l.param().bottom(bottom), "\" must be [G,4] (x1, y1, x2, y2), found ", boxes.ToString()));
}

// Each region's largest overlap with a true box (-1: there is none) and which it is, [R] each.
struct Match {
  ValueId overlap;
  ValueId truth;
};

Match Matched(const GraphBuilder& b, ValueId rois, ValueId boxes) {
  const int64_t regions = b.shape(rois)[0];
  const int64_t truths = b.shape(boxes)[0];
  std::vector<ValueId> sides = Columns(b, rois);
  sides.erase(sides.begin());
  for (const ValueId side : Columns(b, boxes)) sides.push_back(b.Reshape(side, Shape{1, truths}));
  const ValueId overlap = b.Pointwise(
      "t0=min(x2,x6)-max(x0,x4)+1;t1=min(x3,x7)-max(x1,x5)+1;t2=select(min(gt(t0,0),gt(t1,0)),t0*t1,0);"
      "t3=max(max(abs(x4),abs(x5)),max(abs(x6),abs(x7)));"
      "select(gt(t3,0),t2/((x2-x0+1)*(x3-x1+1)+(x6-x4+1)*(x7-x5+1)-t2),-1)",
      sides);
  const ValueId best = b.Add1("top_k_mask", {overlap}, {{"axis", int64_t{1}}, {"k", int64_t{1}}});
  const ValueId number = b.Reshape(b.Add1("filter_index", {b.Full(Shape{truths}, 1)}), Shape{1, truths});
  const auto of_best = [&](ValueId value) {
    return b.Reshape(b.ReduceSum(b.Pointwise("x0*x1", {best, value}), {1}), Shape{regions});
  };
  return {of_best(overlap), of_best(number)};
}

}  // namespace

void BuildMatchedProposal(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  l.Check(l.bottom_count() == 4 && l.top_count() == 3, "top",
          StrCat("with 3 tops ProposalLayer takes 4 bottoms, the last gt_boxes, found ", l.bottom_count()));
  CheckBoxes(l, 3);
  Attributes attributes = ProposalFields(l, fields);
  attributes.Set("min_size", fields.Number("min_size", 0));
  const std::vector<ValueId> found = b.Add("proposals", {l.bottom(0), l.bottom(1), l.bottom(2)}, attributes);
  const Match match = Matched(b, found[0], Constant(l, l.bottom(3)));
  const std::vector<ValueId> kinds = b.Pointwise(
      Strings{"min(ge(x0,0),gt(x1,0.5))", "min(ge(x0,0),min(lt(x1,0.5),ge(x1,0)))"}, {found[2], match.overlap});
  const ValueId positives = b.SumAll(kinds[0]);
  const int64_t most = fields.Flag("has_extra", false) ? kBatch : kForeground;
  const ValueId negatives = Computed(b, kBatch - Min(Term::Of(positives), kForeground));
  const ValueId positive = First(b, Drawn(l, kinds[0], b.Full(Shape{}, static_cast<double>(most)), 0), most);
  const ValueId negative = First(b, Drawn(l, kinds[1], negatives, 1), kBatch);
  const auto joined = [&](ValueId x, ValueId y) { return b.Add1("concat", {x, y}, {{"axis", int64_t{0}}}); };
  l.SetTop(0, b.Add1("take_rows", {found[0], joined(positive, negative)}));
  l.SetTop(1,
           joined(b.Pointwise("select(ge(x0,0),1,-1)", {positive}), b.Pointwise("select(ge(x0,0),0,-1)", {negative})));
  const ValueId truth = b.Add1("take_rows", {match.truth, positive});
  l.SetTop(2, joined(b.Pointwise("select(ge(x0,0),x1,-1)", {positive, truth}), b.Full(b.shape(negative), -1)));
}

ValueId WithClass(const LayerBuilder& l, int bottom) {
  const GraphBuilder& b = l.b();
  const Shape boxes = l.shape(bottom);
  if (boxes.rank() != 2 || boxes[1] != 4) return l.bottom(bottom);
  std::vector<ValueId> columns = Columns(b, Constant(l, l.bottom(bottom)));
  columns.push_back(b.Pointwise("gt(max(max(abs(x0),abs(x1)),max(abs(x2),abs(x3))),0)", columns));
  return Beside(b, columns);
}

namespace {

// One bottom: labels 1 and 0 of a sample, the others -1. Three: the class of each region's true box.
void BuildLabelTarget(LayerBuilder& l, const PythonFields&) {
  const GraphBuilder& b = l.b();
  const int64_t regions = l.shape(0).Count();
  const ValueId labels = Constant(l, b.Reshape(l.bottom(0), Shape{regions}));
  const std::vector<ValueId> kinds = b.Pointwise(Strings{"eq(x0,1)", "eq(x0,0)"}, {labels});
  const ValueId positives = b.SumAll(kinds[0]);
  const ValueId has_both = b.Pointwise("min(gt(x0,0),gt(x1,0))", {positives, b.SumAll(kinds[1])});
  if (l.bottom_count() == 1) {
    const ValueId count = Computed(b, kBatch - Min(Term::Of(positives), kForeground));
    const ValueId positive = Drawn(l, kinds[0], b.Full(Shape{}, static_cast<double>(kForeground)), 0);
    const ValueId negative = Drawn(l, kinds[1], count, 1);
    return l.SetTop(0, b.Pointwise("select(min(x2,max(x0,x1)),x0,-1)", {positive, negative, has_both}));
  }
  l.Check(l.bottom_count() == 3, "bottom", StrCat("LabelTargetLayer takes 1 or 3 bottoms, found ", l.bottom_count()));
  const Shape classes = l.shape(1);
  l.Check(classes.rank() == 2 && classes[1] == 1 && l.shape(2).Count() == regions, "bottom[1]",
          StrCat("the classes must be [G,1] and the true boxes [", regions, "], found ", classes.ToString(), " and ",
                 l.shape(2).ToString()));
  const ValueId truth = Constant(l, b.Reshape(l.bottom(2), Shape{regions}));
  const ValueId own = b.Reshape(b.Add1("take_rows", {Constant(l, l.bottom(1)), truth}), Shape{regions});
  l.SetTop(0, b.Pointwise("select(min(x0,x2),x1,-1)", {kinds[0], own, has_both}));
}

// The original takes the columns (image, x1, y1, x2) for (x1, y1, x2, y2) where it asks whether a true box's middle
// lies in its region; so does this.
void BuildBoxTarget(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const int64_t regions = l.shape(0).Count();
  const Shape rois = l.shape(2);
  CheckBoxes(l, 3);
  l.Check(l.shape(1).Count() == regions && rois == Shape({regions, 5}), "bottom[2]",
          StrCat("there must be a true box and a region [R,5] for each of the ", regions, " labels, found ",
                 l.shape(1).ToString(), " and ", rois.ToString()));
  const Doubles means = fields.Numbers("bbox_normalize_means", {0, 0, 0, 0});
  const Doubles stds = fields.Numbers("bbox_normalize_stds", {0.1, 0.1, 0.2, 0.2});
  const bool fits = means.size() == 4 && stds.size() == 4 && std::ranges::find(stds, 0) == stds.end();
  l.Check(
      fits, "python_param.param_str",
      "python_param.param_str: 'bbox_normalize_means' and 'bbox_normalize_stds' must have 4 numbers each, stds not 0");
  const ValueId labels = Constant(l, b.Reshape(l.bottom(0), Shape{regions, 1}));
  const ValueId truth = Constant(l, b.Reshape(l.bottom(1), Shape{regions}));
  const std::vector<ValueId> from = Columns(b, Constant(l, l.bottom(2)));
  const std::vector<ValueId> to = Columns(b, b.Add1("take_rows", {Constant(l, l.bottom(3)), truth}));
  const ValueId has_box = b.Pointwise("min(eq(x0,1),gt(max(max(abs(x1),abs(x2)),max(abs(x3),abs(x4))),0))",
                                      {labels, to[0], to[1], to[2], to[3]});
  const ValueId counts =
      b.Pointwise("t0=0.5*(x5+x7);t1=0.5*(x6+x8);min(x4,min(min(gt(t0,x0),lt(t0,x2)),min(gt(t1,x1),lt(t1,x3))))",
                  {from[0], from[1], from[2], from[3], has_box, to[0], to[1], to[2], to[3]});
  std::vector<ValueId> targets(4);
  for (size_t axis = 0; axis < 2; ++axis) {
    const std::vector<ValueId> inputs{from[axis + 1], from[axis + 3], to[axis], to[axis + 2], counts};
    const auto input = [&](size_t i) { return Term::Of(inputs[i]); };
    const Term side = Max(input(1) - input(0) + 1, 1);
    const Term true_side = Max(input(3) - input(2) + 1, 1);
    const auto normal = [&](size_t i, const Term& value) {
      return Select(input(4), (value - Decimal(means[i])) / Decimal(stds[i]), 0);
    };
    const Term moved = (input(2) + 0.5 * true_side - input(0) - 0.5 * side) / side;
    const std::vector<ValueId> both =
        b.Pointwise(std::vector<Term>{normal(axis, moved), normal(axis + 2, Log(true_side / side))}, inputs);
    targets[axis] = both[0];
    targets[axis + 2] = both[1];
  }
  const ValueId weights = b.Add1("expand", {counts}, {{"shape", Ints{regions, 4}}});
  l.SetTop(0, Beside(b, targets));
  l.SetTop(1, weights);
  l.SetTop(2, weights);
}

}  // namespace

std::vector<PythonLayerDef> MtnetPythonLayers() {
  return {
      {.module = "rpn.box_target_layer",
       .layer = "BoxTargetLayer",
       .doc = "mtnet: (labels [R], true boxes' numbers [R], rois [R,5], gt_boxes [G,4]) -> targets, inside and outside "
              "weights [R,4] of the regions of label 1.",
       .min_bottoms = 4,
       .max_bottoms = 4,
       .min_tops = 3,
       .max_tops = 3,
       .build = BuildBoxTarget},
      {.module = "rpn.label_target_layer",
       .layer = "LabelTargetLayer",
       .doc = "mtnet: (labels [R]) -> at most 32 labels 1 and 128 in all, the others -1; or (labels [R], classes "
              "[G,1], true boxes' numbers [R]) -> the classes of the regions of label 1, the others -1.",
       .min_bottoms = 1,
       .max_bottoms = 3,
       .build = BuildLabelTarget},
  };
}

}  // namespace moka

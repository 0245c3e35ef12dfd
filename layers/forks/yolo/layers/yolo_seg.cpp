// YoloSeg: the segmentation loss beside YOLO v3 (eric612's port). Each pixel of each class is a sigmoid p of its own;
// training follows the rule s (p - label), s = object_scale, of which the loss told is the sum of squares. With a third
// bottom, the pixels of each class in each image, the positives' s is object_scale (2 - positives / negatives). The
// fork reads use_logic_gradient, use_hardsigmoid, class_scale and num_class and uses none of them, nor does this.
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// 2 - positives / negatives of each class, [1,C,1,1], from counts [N,C].
ValueId PositiveFactor(const LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int64_t rows = l.shape(2)[0];
  l.Check(l.shape(2).Count() == rows * x[1], "bottom[2]",
          StrCat("the third bottom must hold a count for each of the ", x[1], " classes of each image, found ",
                 l.shape(2).ToString()));
  const ValueId positives = b.ReduceSum(b.Reshape(b.Add1("stop_gradient", {l.bottom(2)}), {rows, x[1]}), {0});
  const double pixels = static_cast<double>(rows) * static_cast<double>(x[2] * x[3]);
  const Term count = Term::Of(positives);
  const ValueId factor = Computed(b, 2 - count / (Decimal(pixels) - count));
  return b.Reshape(factor, {1, x[1], 1, 1});
}

void BuildYoloSeg(LayerBuilder& l) {
  const YoloSegParameter& p = l.param().yolo_seg_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(l.shape(1).Count() == x.Count(), "bottom[1]",
          StrCat("there must be a label for each element of ", x.ToString(), ", found ", l.shape(1).ToString()));
  const GraphBuilder& b = l.b();
  const Term scale = Decimal(Finite(l, "yolo_seg_param.object_scale", p.object_scale()));
  std::vector<ValueId> inputs{b.Add1("stop_gradient", {l.bottom(0)}),
                              b.Reshape(b.Add1("stop_gradient", {l.bottom(1)}), x)};
  Term rule = scale * (Sigmoid(Term::Of(inputs[0])) - Term::Of(inputs[1]));
  if (l.bottom_count() == 3) {
    l.NoteUnequal("weighs classes by their counts in a batch, which is a part of it on each rank");
    inputs.push_back(PositiveFactor(l));
    rule = rule * Select(Term::Of(inputs[1]) > 0.5, Term::Of(inputs[2]), 1);
  }
  const ValueId slope = b.Pointwise(rule, inputs);
  const ValueId squares = b.Add1("reduce_sum", {slope}, {{"expr", std::string("x0*x0")}, {"axes", Ints{0, 1, 2, 3}}});
  const auto mean = [&](ValueId sum) { return Computed(b, Term::Of(sum) / x[0]); };
  const ValueId mean_slope = mean(slope);
  SetSlopedLoss(l, l.bottom(0), b.Reshape(mean(squares), Shape{}), mean_slope);
}

}  // namespace

LayerDef YoloSegLayer() {
  return {.type = "YoloSeg",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = BuildYoloSeg,
          .needs = NeedEqualCounts,
          .params = {"yolo_seg_param"}};
}

}  // namespace moka

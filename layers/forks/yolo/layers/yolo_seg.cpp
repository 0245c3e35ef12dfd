// YoloSeg: the segmentation loss beside YOLO v3 (eric612's port). Each pixel of each class is a sigmoid p of its own;
// training follows the rule s (p - label), s = object_scale, of which the loss told is the sum of squares. With a third
// bottom, the pixels of each class in each image, the positives' s is object_scale (2 - positives / negatives). The
// fork reads use_logic_gradient, use_hardsigmoid, class_scale and num_class and uses none of them, nor does this.
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

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
  const ValueId factor = b.Pointwise(StrCat("2-x0/(", Number(pixels), "-x0)"), {positives});
  return b.Reshape(factor, {1, x[1], 1, 1});
}

void BuildYoloSeg(LayerBuilder& l) {
  const YoloSegParameter& p = l.param().yolo_seg_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(l.shape(1).Count() == x.Count(), "bottom[1]",
          StrCat("there must be a label for each element of ", x.ToString(), ", found ", l.shape(1).ToString()));
  const GraphBuilder& b = l.b();
  const std::string scale = Number(Finite(l, "yolo_seg_param.object_scale", p.object_scale()));
  std::vector<ValueId> inputs{b.Add1("stop_gradient", {l.bottom(0)}),
                              b.Reshape(b.Add1("stop_gradient", {l.bottom(1)}), x)};
  std::string rule = StrCat(scale, "*(sigmoid(x0)-x1)");
  if (l.bottom_count() == 3) {
    l.NoteUnequal("weighs classes by their counts in a batch, which is a part of it on each rank");
    inputs.push_back(PositiveFactor(l));
    rule += "*select(gt(x1,0.5),x2,1)";
  }
  const ValueId slope = b.Pointwise(rule, inputs);
  const ValueId squares = b.Add1("reduce_sum", {slope}, {{"expr", std::string("x0*x0")}, {"axes", Ints{0, 1, 2, 3}}});
  const std::string mean = StrCat("x0/", x[0]);
  SetSlopedLoss(l, l.bottom(0), b.Reshape(b.Pointwise(mean, {squares}), Shape{}), b.Pointwise(mean, {slope}));
}

}  // namespace

LayerDef YoloSegLayer() {
  return {
      .type = "YoloSeg",
      .doc =
          "A loss of masks [N,C,H,W] with labels like them (0 or 1): the sum of squares of object_scale * "
          "(sigmoid(x) - label), divided by N. The gradient is object_scale * (sigmoid(x) - label) / N times the "
          "loss weight, not the derivative of the top. A third bottom [N,C] holds the positive pixels of each "
          "class; positives then count 2 - positives / negatives times.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .auto_tops = true,
      .build = BuildYoloSeg,
      .page = {
          .params = {"yolo_seg_param"},
          .formula = "With s the sigmoid and a label t (0 or 1) for each element of x [N,C,H,W], the rule is `g = "
                     "object_scale * f * (s(x) - t)`, object_scale 5 by default; f is 1, or with a third bottom, "
                     "at t > 0.5, `2 - P_c / (M - P_c)`, P_c the sum over the images of the counts of class c and "
                     "M = (rows of the third bottom) * H * W. The top is the scalar `sum g^2 / N`.",
          .gradient = "`dx = loss_weight * g / N`: the rule itself, not the derivative of the top. None for labels "
                      "and the third bottom.",
          .source = "eric612's Caffe port of YOLO v3, whose segmentation loss this is. The fork reads "
                    "use_logic_gradient, use_hardsigmoid, class_scale and num_class and uses none of them, nor "
                    "does this.",
          .example =
              R"(layer { name: "mask" type: "Input" top: "mask" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer {
  name: "loss"
  type: "YoloSeg"
  bottom: "mask"
  bottom: "label"
  top: "loss"
  yolo_seg_param { object_scale: 2 }
})"}};
}

}  // namespace moka

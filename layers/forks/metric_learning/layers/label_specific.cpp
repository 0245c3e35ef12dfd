// Margins at the label (AMSoftmax, Wang et al., arXiv 1801.05599; NormFace): the score of the label is moved or scaled
// before the loss.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// bias_base + (1 + gamma * iteration)^power - 1, kept within the bounds; the iteration is counted by the layer.
ValueId AnnealedBias(LayerBuilder& l, const LabelSpecificAddParameter& p) {
  const std::string prefix = "label_specific_add_param.";
  const ValueId runs = l.AddKept("runs", {});
  l.AssignKept(runs, l.b().Pointwise("x0+1", {runs}));
  const double gamma = Finite(l, prefix + "bias_gamma", p.bias_gamma());
  const std::string growth = StrCat("pow(max(1+", Number(gamma), "*(x0+", p.iteration(), "),0),",
                                    Number(Finite(l, prefix + "bias_power", p.bias_power())), ")");
  const std::string bias = StrCat(Number(Finite(l, prefix + "bias_base", p.bias_base())), "+", growth, "-1");
  return l.b().Pointwise(StrCat("min(max(", bias, ",", Number(Finite(l, prefix + "bias_min", p.bias_min())), "),",
                                Number(Finite(l, prefix + "bias_max", p.bias_max())), ")"),
                         {Constant(l, runs)});
}

void BuildAdd(LayerBuilder& l) {
  const LabelSpecificAddParameter& p = l.param().label_specific_add_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const LabelledRows in = RowsWithLabels(l);
  const bool is_fixed = !p.has_bias_base();
  const double fixed = Finite(l, "label_specific_add_param.bias", p.bias());
  ValueId bias = b.Full({}, fixed);
  if (l.phase() == TRAIN) {
    if (!is_fixed) bias = AnnealedBias(l, p);
    l.SetTop(0, b.Reshape(b.Pointwise("x0+x1*x2*gt(x0,-x2)", {in.rows, in.mask, bias}), x));
  } else {
    l.SetTop(0, l.bottom(0));
  }
  if (l.top_count() > 1) l.SetTop(1, b.Reshape(bias, {1}));
}

void BuildRescale(LayerBuilder& l) {
  const LabelSpecificRescaleParameter& p = l.param().label_specific_rescale_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const LabelledRows in = RowsWithLabels(l);
  const double positive = Finite(l, "label_specific_rescale_param.positive_weight", p.positive_weight());
  const double negative = Finite(l, "label_specific_rescale_param.negative_weight", p.negative_weight());
  if (l.phase() == TEST && !p.rescale_test()) {
    l.SetTop(0, l.bottom(0));
  } else {
    const std::string own = p.for_ip() ? StrCat("select(gt(x0,0),", Number(positive), ",1)") : Number(positive);
    l.SetTop(0,
             b.Reshape(b.Pointwise(StrCat("x0*select(x1,", own, ",", Number(negative), ")"), {in.rows, in.mask}), x));
  }
  if (l.top_count() > 1) l.SetTop(1, b.Full({1}, positive));
}

LayerDef Row(std::string type, std::string doc, void (*build)(LayerBuilder&), LayerPage page) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = build,
          .page = std::move(page)};
}

}  // namespace

LayerDef LabelSpecificAddLayer() {
  return Row(
      "LabelSpecificAdd",
      "TRAIN: the bottom with bias added to each item's score at its label, where that is above -bias; TEST: the "
      "bottom. Bottoms: scores and labels. With bias_base the bias grows with the iterations. A second top holds "
      "it.",
      BuildAdd,
      {.params = {"label_specific_add_param"},
       .formula = "TRAIN, for the label c of item n: `y[n,c] = x[n,c] + bias` if `x[n,c] > -bias`; everything else "
                  "is x. With bias_base `bias = min(max(bias_base + (1 + bias_gamma * t)^bias_power - 1, "
                  "bias_min), bias_max)`, t the runs so far, from iteration on. TEST: y is x.\n\nTop 1, if there "
                  "is one, is the bias [1] (in TEST that of the field).",
       .gradient = "`dx = dy`. Labels get none.",
       .source = "Additive margin softmax for face verification (Wang, Liu, Liu, Cheng, arXiv 1801.05599); "
                 "happynear's Caffe, label_specific_add_layer, where transform_test has no effect in TEST either. "
                 "The runs are kept with the checkpoint, not in a blob.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "margin"
  type: "LabelSpecificAdd"
  bottom: "x"
  bottom: "label"
  top: "margin"
  label_specific_add_param { bias: -0.35 }
})"});
}

LayerDef LabelSpecificRescaleLayer() {
  return Row(
      "LabelSpecificRescale",
      "TRAIN (TEST too with rescale_test): each item's score at its label times positive_weight, the others times "
      "negative_weight. Bottoms: scores and labels. A second top holds positive_weight.",
      BuildRescale,
      {.params = {"label_specific_rescale_param"},
       .formula = "For the label c of item n: `y[n,c] = positive_weight * x[n,c]` (with for_ip only if `x[n,c] > "
                  "0`), `y[n,j] = negative_weight * x[n,j]` for the others. In TEST y is x unless rescale_test "
                  "is given.\n\nTop 1, if there is one, is positive_weight [1].",
       .gradient = "`dx` is dy times the same factor. Labels get none.",
       .source = "NormFace (Wang, Xiang, Cheng, Yuille, arXiv 1704.06369); happynear's Caffe, "
                 "label_specific_rescale_layer. positive_lower_bound and negative_upper_bound are read and "
                 "ignored, as there.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "margin"
  type: "LabelSpecificRescale"
  bottom: "x"
  bottom: "label"
  top: "margin"
  label_specific_rescale_param { positive_weight: 0.9 }
})"});
}

}  // namespace moka

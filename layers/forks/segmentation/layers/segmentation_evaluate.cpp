// SegmentationEvaluate: the counts [3,C] of a batch's pixels by class; optim/evaluators/segmentation.h adds up those of
// a test's batches and makes mean intersection over union, accuracies and Dice of them. A mean over batches, as
// SegAccuracy's, is another number: rare classes are missing in many batches.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSegmentationEvaluate(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2 && x[1] >= 2, "bottom[0]",
          StrCat("the scores must be [N,C,..] of at least 2 classes, found ", x.ToString()));
  CheckLabelCount(l, 1);
  const SegmentationEvaluateParameter& p = l.param().segmentation_evaluate_param();
  l.Check(!p.has_num_classes() || p.num_classes() == x[1], "segmentation_evaluate_param.num_classes",
          StrCat("num_classes is ", p.num_classes(), ", but the scores ", x.ToString(), " have ", x[1], " classes"));
  l.Check(!p.has_threshold(), "segmentation_evaluate_param.threshold",
          "threshold, of a single class, is not part of Moka: give the scores of two classes");
  const auto& ignored = p.ignore_label();
  l.SetTop(0, l.b().Add1("class_counts", l.bottoms(),
                         {{"axis", int64_t{1}}, {"ignore", Ints(ignored.begin(), ignored.end())}}));
}

}  // namespace

LayerDef SegmentationEvaluateLayer() {
  return {
      .type = "SegmentationEvaluate",
      .doc =
          "From scores [N,C,H,W] and labels [N,1,H,W] the counts [3,C] of pixels that are right, labelled and "
          "predicted, for each class. A test adds them up and gives the mean intersection over union, pixel and mean "
          "accuracy and Dice. ignore_label: labels left out. No gradient.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildSegmentationEvaluate,
      .page = {
          .params = {"segmentation_evaluate_param"},
          .formula =
              "Per pixel the prediction is the class of the largest score, of equal ones the last. `top[0,k]` = h_k, "
              "the pixels of label k that are predicted k; `top[1,k]` = l_k, those labelled k; `top[2,k]` = p_k, those "
              "predicted k. Pixels with an `ignore_label` count nowhere; another label outside 0..C-1 is an error.\n\n"
              "Of the sums over all batches `moka test` and `moka train` give, for a top called miou: `miou`, the mean "
              "of `h_k / (l_k + p_k - h_k)` over the classes that occur or are predicted, and that of each class; "
              "`miou/pixel_accuracy` = `sum h_k / sum l_k`; `miou/mean_accuracy`, the mean of `h_k / l_k` over the "
              "classes that occur; `miou/dice`, the mean of `2 h_k / (l_k + p_k)`. Runs are ranked by the first.",
          .gradient = "None: neither the scores nor the labels get a gradient.",
          .source = "Moka's own; the measures are those of Long, Shelhamer, Darrell, arXiv 1411.4038, section 5.",
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 2 dim: 4 dim: 8 dim: 8 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } } }
layer {
  name: "miou"
  type: "SegmentationEvaluate"
  bottom: "scores"
  bottom: "label"
  top: "miou"
  segmentation_evaluate_param { ignore_label: 255 }
})"}};
}

}  // namespace moka

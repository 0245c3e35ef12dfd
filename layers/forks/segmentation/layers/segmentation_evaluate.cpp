// SegmentationEvaluate: the counts [3,C] of a batch's pixels by class; optim/evaluators/segmentation.cpp adds up those
// of a test's batches and makes mean intersection over union, accuracies and Dice of them. A mean over batches, as
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
  return {.type = "SegmentationEvaluate",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildSegmentationEvaluate,
          .params = {"segmentation_evaluate_param"}};
}

}  // namespace moka

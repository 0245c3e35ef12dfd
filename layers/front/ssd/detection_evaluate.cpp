// DetectionEvaluate: which detections are right. Caffe's top grows with the detections; here it has the largest size
// and rows that are not used are -1.
#include "core/log.h"
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/ssd/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const DetectionEvaluateParameter& p = l.param().detection_evaluate_param();
  l.Check(p.num_classes() >= 1, "detection_evaluate_param.num_classes", "num_classes must be given, at least 1");
  l.Check(p.overlap_threshold() > 0, "detection_evaluate_param.overlap_threshold",
          StrCat("overlap_threshold must be above 0, found ", p.overlap_threshold()));
  // With the images' sizes Caffe compares boxes in pixels, which differs by the one pixel it adds to each side.
  if (!p.name_size_file().empty()) {
    LogWarning(StrCat("layer \"", l.param().name(),
                      "\": boxes are compared as fractions of the image, without the sizes of ",
                      Printable(p.name_size_file())));
  }
  // Caffe reads the unsigned field into an int: 4294967295 is its -1, no background.
  const auto background = static_cast<int32_t>(p.background_label_id());
  l.SetTop(
      0,
      l.b().Add1("detection_evaluate", l.bottoms(),
                 {{"classes", int64_t{p.num_classes()}},
                  {"background", int64_t{background}},
                  {"overlap_threshold", Finite(l, "detection_evaluate_param.overlap_threshold", p.overlap_threshold())},
                  {"evaluate_difficult", p.evaluate_difficult_gt()}}));
}

}  // namespace

LayerDef DetectionEvaluateLayer() {
  return {
      .type = "DetectionEvaluate",
      .doc =
          "Detections [1,1,R,7] (of DetectionOutput) and ground truth [1,1,G,8] to rows [1,1,K+R,5]. The first K: "
          "one a class but the background, (-1, class, objects of it, -1, -1). Then one a detection, by image, "
          "class and falling score: (image, class, score, right, wrong). A detection is right when the object of "
          "its class it overlaps most is overlapped by overlap_threshold and not taken yet; on a difficult object "
          "it is neither unless evaluate_difficult_gt. Unused rows are -1.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = Build,
      .page = {
          .params = {"detection_evaluate_param"},
          .formula = "The top is [1,1,K+R,5], K the classes but the background. Row c of the first K is (-1, "
                     "class, objects of the class, -1, -1), difficult objects counted only with "
                     "evaluate_difficult_gt (default true). Then (image, class, score, right, wrong) for each "
                     "detection that is neither unused (image or class -1) nor background, by image, class and "
                     "falling score (in the order given where the image has no object of the class); the "
                     "remaining rows are -1.\n\nA detection is compared with the object of its image and class of "
                     "the highest intersection over union. If that is below overlap_threshold (default 0.5), "
                     "there is no object, or the object is taken already, it is wrong (0, 1); otherwise it is "
                     "right (1, 0) and takes the object. On a difficult object it is neither (0, 0) without "
                     "evaluate_difficult_gt.",
          .gradient = "None: neither bottom gets one.",
          .source = "SSD's Caffe (Liu et al., arXiv 1512.02325). Caffe's top grows with the detections; here it "
                    "has the largest size and rows that are not used are -1. name_size_file is refused: boxes "
                    "are compared as fractions of the image.",
          .example =
              R"(layer { name: "det" type: "Input" top: "det" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 7 } } }
layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 8 } } }
layer {
  name: "evaluation"
  type: "DetectionEvaluate"
  bottom: "det"
  bottom: "truth"
  top: "evaluation"
  # Class 2 is the background; 0 and 1 are objects.
  detection_evaluate_param { num_classes: 3 background_label_id: 2 overlap_threshold: 0.5 }
})"}};
}

}  // namespace moka

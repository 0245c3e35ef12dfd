// CocoEvaluate: detections and objects side by side, for COCO's average precision. What is right depends on ten
// overlaps and on all pictures, so nothing is judged here; optim/evaluators/coco.cpp does, over a whole test.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void CheckCocoRows(const LayerBuilder& l, int bottom, int64_t columns) {
  const Shape shape = l.shape(bottom);
  l.Check(
      shape.rank() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == columns, StrCat("bottom[", bottom, "]"),
      StrCat("bottom \"", l.param().bottom(bottom), "\" must be [1,1,rows,", columns, "], found ", shape.ToString()));
}

void BuildCocoEvaluate(LayerBuilder& l) {
  const CocoEvaluateParameter& p = l.param().coco_evaluate_param();
  l.Check(p.max_detections() >= 1, "coco_evaluate_param.max_detections", "max_detections must be at least 1");
  l.Check((p.height() > 0) == (p.width() > 0), "coco_evaluate_param.height",
          StrCat("height and width go together, found ", p.height(), " and ", p.width()));
  CheckCocoRows(l, 0, 7);
  CheckCocoRows(l, 1, 8);
  const TensorType type = l.b().graph().type(l.bottom(0));
  const ValueId mark = l.b().Full(type.shape.With(3, 1), -1, type.dtype);
  const ValueId detections = l.b().Add1("concat", {l.bottom(0), mark}, {{"axis", int64_t{3}}});
  l.SetTop(0, l.b().Add1("concat", {detections, l.bottom(1)}, {{"axis", int64_t{2}}}));
}

}  // namespace

LayerDef CocoEvaluateLayer() {
  return {
      .type = "CocoEvaluate",
      .doc =
          "Detections [1,1,R,7] (of DetectionOutput) and ground truth [1,1,G,8] as rows [1,1,R+G,8], of which tests "
          "make COCO's average precision over all pictures: the mean over classes and the overlaps 0.5, 0.55, ..., "
          "0.95, and beside it those at 0.5 and 0.75.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildCocoEvaluate,
      .page = {
          .params = {"coco_evaluate_param"},
          .formula =
              "The first R rows of the top are bottom 0's (image, class, score, xmin, ymin, xmax, ymax) with a -1 "
              "behind, the others bottom 1's (image, class, instance, xmin, ymin, xmax, ymax, difficult). Rows whose "
              "image is negative are unused.\n\nA test (`moka test`, and test nets of trainings) prints, for a top "
              "`coco`: `coco`, the mean of the average precisions over all classes that have objects and ten "
              "overlaps; `coco/ap50` and `coco/ap75`, at overlaps of 0.5 and 0.75; with height and width also "
              "`coco/small` (objects below 32x32 pixels), `coco/medium` and `coco/large` (above 96x96), -1 where "
              "there are none. Of each picture and class the max_detections of the highest scores are taken in their "
              "order; each takes the free object it overlaps most, and by the threshold at least. The average "
              "precision is the mean over the recalls 0, 0.01, ..., 1 of the best precision from there on. Difficult "
              "objects (1) and crowds (2) count neither as missed nor as found; any number of detections may be of a "
              "crowd.",
          .gradient = "None: tests alone read the top.",
          .source = "COCO's evaluation (Lin et al., arXiv 1405.0312; pycocotools), whose numbers it gives for the same "
                    "boxes; but for small, medium and large, which go by the boxes' areas in the net's input where "
                    "pycocotools goes by the areas that annotations name.",
          .example =
              R"(layer { name: "det" type: "Input" top: "det" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 7 } } }
layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 8 } } }
layer {
  name: "coco"
  type: "CocoEvaluate"
  bottom: "det"
  bottom: "truth"
  top: "coco"
  coco_evaluate_param { height: 480 width: 640 }
})"}};
}

}  // namespace moka

// CocoEvaluate: detections and objects side by side, for COCO's average precision. What is right depends on ten
// overlaps and on all images, so nothing is judged here; optim/evaluators/coco.cpp does, over a whole test.
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
  return {.type = "CocoEvaluate",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildCocoEvaluate,
          .params = {"coco_evaluate_param"}};
}

}  // namespace moka

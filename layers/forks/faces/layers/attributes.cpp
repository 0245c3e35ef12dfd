// Faces with landmarks, angles, gender and glasses (yuqj1991): their data and how well they were found.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

void BuildEvaluate(LayerBuilder& l) {
  const FaceEvaluateParameter& p = l.param().face_evaluate_param();
  l.Check(p.has_facetype() && p.facetype() == FaceEvaluateParameter::FACEATTRIBUTE, "face_evaluate_param.facetype",
          "facetype must be given and FACEATTRIBUTE, the one that the original evaluates");
  constexpr int64_t kColumns = 17;
  const Shape x = l.shape(0);
  const Shape t = l.shape(1);
  l.Check(
      x.rank() >= 2 && x.Count() > 0 && x.Count() == x[0] * x[1] && x[1] >= kColumns, "bottom[0]",
      StrCat("bottom \"", l.param().bottom(0), "\" must be [N,C], C at least ", kColumns, ", found ", x.ToString()));
  l.Check(t.rank() >= 2 && t[0] == x[0] && t.Count() == x[0] * kColumns, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [", x[0], ",", kColumns, "], found ", t.ToString()));
  const GraphBuilder& b = l.b();
  l.SetTop(0, b.Add1("face_scores", {b.Reshape(l.bottom(0), {x[0], x[1]}), b.Reshape(l.bottom(1), {t[0], kColumns})}));
}

GuessedTypes GuessFaceAttributeData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int /*top*/, const GuessedPicture& picture) -> Shape {
    return {picture.batch, data.phase() == TRAIN ? 15 : 17};
  };
  return GuessPictures(layer, {.top = top});
}

}  // namespace

LayerDef FaceAttributeDataLayer() {
  return OutsideDataLayer("faceAttributeData", {.guess = GuessFaceAttributeData}, 2, {"data_param", "transform_param"});
}

LayerDef FaceAttriEvaluateLayer() {
  return {.type = "FaceAttriEvaluate",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildEvaluate,
          .params = {"face_evaluate_param"}};
}

}  // namespace moka

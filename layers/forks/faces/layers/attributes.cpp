// Faces with landmarks, angles, gender and glasses (yuqj1991): their data and how well they were found.
#include "core/text.h"
#include "layers/net/layer.h"
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

}  // namespace

LayerDef FaceAttributeDataLayer() {
  return OutsideDataLayer(
      "faceAttributeData",
      "Images of faces [N,C,H,W] and, optional, rows of their landmarks, angles, gender and glasses: [N,15] in "
      "TRAIN, [N,17] in TEST, where the picture's width and height follow. Nets with the layer build, but no "
      "reader of its records exists: training or testing with it is an error.",
      2,
      {.params = {"data_param", "transform_param"},
       .formula = "top 0: images `[batch_size,3,H,W]`, H and W those of `transform_param.resize_param`; top 1 "
                  "(optional): rows of x of the left and right eye, the nose and the mouth's left and right "
                  "corner, their y (parts of the picture's sides), yaw, pitch, roll, gender and glasses.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "github.com/yuqj1991/caffe_train, face_attribute_data_layer, without its reader. Nets for its "
                 "older versions, whose rows end with gender, have as many columns as they read.",
       .example = R"(layer {
  name: "data"
  type: "faceAttributeData"
  top: "data"
  top: "label"
  data_param { source: "faces_lmdb" batch_size: 2 backend: LMDB }
  transform_param { resize_param { height: 8 width: 8 } }
})"});
}

LayerDef FaceAttriEvaluateLayer() {
  return {
      .type = "FaceAttriEvaluate",
      .doc =
          "How well faces' landmarks, angles, gender and glasses were found. Bottoms: rows [N,C] found, C at least "
          "17, and faceAttributeData's truth [N,17]. The top [1,1,N,10] has for each face five distances, two marks "
          "and three cosines. facetype must be FACEATTRIBUTE.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildEvaluate,
      .page = {
          .params = {"face_evaluate_param"},
          .formula = "A row found is x of five landmarks, their y, yaw, pitch, roll and two scores each for gender "
                     "and glasses; a row of the truth x, y, angles, gender, glasses, width w and height h. Columns "
                     "0 to 4: `sqrt((w dx)^2 + (h dy)^2) / sqrt(w^2 + h^2)`. 5 and 6: 1 if gender (glasses) is the "
                     "place of the higher score (1 if the second is above the first and 0), of this face or any "
                     "before it in the batch. 7 to 9: the cosines of the angles' errors.",
          .gradient = "None: no bottom gets one.",
          .source = "yuqj1991's Caffe, faceEvaluateLayer: there as here the marks stay set from the first face that "
                    "is right. Its other values of facetype write nothing and are refused.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 17 } } }
layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 2 dim: 17 } } }
layer {
  name: "scores"
  type: "FaceAttriEvaluate"
  bottom: "x"
  bottom: "truth"
  top: "scores"
  face_evaluate_param { facetype: FACEATTRIBUTE }
})"}};
}

}  // namespace moka

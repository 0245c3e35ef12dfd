// MaskEvaluate: how detected masks overlap the true ones. What is right depends on ten overlaps and on all pictures, so
// nothing is judged here; optim/evaluators/masks.cpp does, over a whole test.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskEvaluate(LayerBuilder& l) {
  const MaskParameter& p = l.param().mask_param();
  l.Check(p.max_detections() >= 1, "mask_param.max_detections", "mask_param.max_detections must be at least 1");
  l.SetTop(0, l.b().Add1("mask_overlaps", l.bottoms(),
                         {{"threshold", PartOfField(l, "mask_param.threshold", p.threshold())}}));
}

}  // namespace

LayerDef MaskEvaluateLayer() {
  return {
      .type = "MaskEvaluate",
      .doc =
          "Detections [1,1,N*K,7] (RegionOutput's), their masks' probabilities [N*K,1,S,S], the true boxes [1,1,N*G,8] "
          "and INSTANCES [N,1,H,W] (RecordData's) as a table [N,K+4,3+G], of which tests make COCO's average precision "
          "of masks over all pictures: the mean over classes and the overlaps 0.5, 0.55, ..., 0.95, and beside it "
          "those at 0.5 and 0.75.",
      .min_bottoms = 4,
      .max_bottoms = 4,
      .build = BuildMaskEvaluate,
      .page = {
          .params = {"mask_param"},
          .formula =
              "A mask is resized to its box (bilinear at pixels' centres, zeros around it); pixels of at least "
              "`threshold` are the detection's. Row 0 of a picture: K and G; row 1+k: class, score and pixels of its "
              "k-th "
              "detection, then its intersection over union with each object in the order of INSTANCES (with a crowd "
              "the part of the detection that is in it); row K+1: the objects' classes, K+2 their pixels, K+3 their "
              "marks (1 difficult, 2 crowd), behind three numbers without meaning. -1 where there is none.\n\nA test "
              "(`moka test`, and test nets of trainings) prints, for a top `mask_ap`: "
              "`mask_ap`, `mask_ap/ap50` and `mask_ap/ap75`, as CocoEvaluate does for boxes, of the max_detections "
              "best of each picture and class, and `mask_ap/small`, `mask_ap/medium` and `mask_ap/large`. Difficult "
              "objects and crowds count neither as found nor as missed; any number of detections may be of a crowd.",
          .gradient = "None: tests alone read the top.",
          .source = "COCO's evaluation (Lin et al., arXiv 1405.0312; pycocotools), whose numbers it gives for the same "
                    "masks; masks are resized as in Detectron2.",
          .example =
              R"(layer { name: "det" type: "Input" top: "det" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 7 } } }
layer { name: "masks" type: "Input" top: "masks" input_param { shape { dim: 6 dim: 1 dim: 7 dim: 7 } } }
layer { name: "boxes" type: "Input" top: "boxes" input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
layer { name: "instances" type: "Input" top: "instances" input_param { shape { dim: 2 dim: 1 dim: 20 dim: 24 } } }
layer {
  name: "mask_ap"
  type: "MaskEvaluate"
  bottom: "det"
  bottom: "masks"
  bottom: "boxes"
  bottom: "instances"
  top: "mask_ap"
})"}};
}

}  // namespace moka

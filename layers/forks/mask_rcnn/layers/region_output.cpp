// RegionOutput: what the second stage found.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRegionOutput(LayerBuilder& l) {
  const RegionOutputParameter& p = l.param().region_output_param();
  l.Check(p.max_detections() >= 1 && p.max_detections() <= 1000000, "region_output_param.max_detections",
          StrCat("region_output_param.max_detections must be from 1 to 1000000, found ", p.max_detections()));
  const std::vector<ValueId> tops = l.b().Add(
      "region_detections", {l.bottom(1), l.bottom(2), l.bottom(3)},
      Together(PicturesOfBottom0(l),
               {{"pictures", l.shape(0)[0]},
                {"most", int64_t{p.max_detections()}},
                {"threshold", Finite(l, "region_output_param.confidence_threshold", p.confidence_threshold())},
                {"nms_threshold", PartOfField(l, "region_output_param.nms_threshold", p.nms_threshold())},
                {"min_side", Finite(l, "region_output_param.min_side", p.min_side())},
                {"stds", StdsOfField(l, "region_output_param.std", p.std())}}));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef RegionOutputLayer() {
  return {
      .type = "RegionOutput",
      .doc =
          "The detections of a second stage. Bottoms: the pictures [N,C,H,W] (for their size), rois [R,5], their "
          "classes' probabilities [R,C] (class 0 is the background) and codes [R,4C]. Tops: rows [1,1,N*K,7] (picture, "
          "class, score, xmin, ymin, xmax, ymax as parts of the picture; -1: unused), as of DetectionOutput but with K "
          "= max_detections rows for every picture; the same boxes as rois [N*K,5] for a net of masks, and their "
          "classes [N*K].",
      .min_bottoms = 4,
      .max_bottoms = 4,
      .max_tops = 3,
      .build = BuildRegionOutput,
      .page = {
          .params = {"region_output_param"},
          .formula = "A region is a detection of each class but 0 whose probability is above confidence_threshold. Its "
                     "box is the region moved by the class's code (RegionTarget's, times std; sides grow by 1000/16 at "
                     "most), cut to the picture; with a side below min_side it goes. Of two boxes of a class whose "
                     "intersection over union is above nms_threshold the lower score goes. Of all that are left the K "
                     "best of each picture are its rows, best first.",
          .gradient = "None: detections are fixed numbers.",
          .source = "Girshick, \"Fast R-CNN\", 2015, arXiv 1504.08083; numbers as torchvision's RoIHeads gives them.",
          .example =
              R"(layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 1 dim: 32 dim: 32 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 20 dim: 5 } } }
layer { name: "prob" type: "Input" top: "prob" input_param { shape { dim: 20 dim: 3 } } }
layer { name: "codes" type: "Input" top: "codes" input_param { shape { dim: 20 dim: 12 } } }
layer {
  name: "detections"
  type: "RegionOutput"
  bottom: "data"
  bottom: "rois"
  bottom: "prob"
  bottom: "codes"
  top: "detections"
  top: "detected_rois"
  top: "detected_classes"
  region_output_param { max_detections: 10 }
})"}};
}

}  // namespace moka

// MaskTarget: what a net that cuts out objects learns.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskTarget(LayerBuilder& l) {
  const MaskParameter& p = l.param().mask_param();
  l.Check(p.size() >= 1 && p.size() <= 4096, "mask_param.size",
          StrCat("mask_param.size must be from 1 to 4096, found ", p.size()));
  l.SetTop(0, l.b().Add1("mask_cuts", l.bottoms(), {{"size", int64_t{p.size()}}}));
}

}  // namespace

LayerDef MaskTargetLayer() {
  return {
      .type = "MaskTarget",
      .doc =
          "The masks that a net of masks learns. Bottoms: rois [M,5] and the rows of their objects [M] (RegionTarget's "
          "last tops), and RecordData's INSTANCES [N,1,H,W]. The top is [M,1,size,size]: the part of each bin that is "
          "the object's, from 0 to 1; -1 throughout where there is no region.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .build = BuildMaskTarget,
      .page = {.params = {"mask_param"},
               .formula =
                   "`y[m,0,i,j]` is bin (i, j) of ROIAlign (spatial_scale 1, `aligned: false`, as many samples a bin "
                   "as it has pixels) over the picture that is 1 where instances are the region's object and 0 "
                   "elsewhere. SigmoidCrossEntropyLoss against it wants `ignore_label: -1` and `normalization: "
                   "VALID`, which makes it the mean over all regions' bins.",
               .gradient = "None: targets are fixed numbers.",
               .source =
                   "He et al., \"Mask R-CNN\", 2017, arXiv 1703.06870; numbers as torchvision's project_masks_on_boxes "
                   "gives them.",
               .example =
                   R"(layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "objects" type: "Input" top: "objects" input_param { shape { dim: 4 } } }
layer { name: "instances" type: "Input" top: "instances" input_param { shape { dim: 2 dim: 1 dim: 32 dim: 32 } } }
layer {
  name: "masks"
  type: "MaskTarget"
  bottom: "rois"
  bottom: "objects"
  bottom: "instances"
  top: "masks"
  mask_param { size: 14 }
})"}};
}

}  // namespace moka

// Online hard example mining (Shrivastava et al., arXiv 1604.03540) as R-FCN does it: of each image the regions with
// the largest losses keep their labels and box weights, the others are ignored.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// bottom i has `channels` values a region and position.
void CheckBottom(const LayerBuilder& l, int i, int64_t regions, int64_t positions) {
  const Shape x = l.shape(i);
  const bool fits = x.rank() >= 1 && x[0] == regions && x.Count() == regions * positions;
  l.Check(fits, StrCat("bottom[", i, "]"),
          StrCat("bottom \"", l.param().bottom(i), "\" must have one value a region of \"", l.param().bottom(0), "\" ",
                 l.shape(0).ToString(), ", found ", x.ToString()));
}

void BuildBoxAnnotatorOhem(LayerBuilder& l) {
  const BoxAnnotatorOHEMParameter& p = l.param().box_annotator_ohem_param();
  l.Check(p.roi_per_img() >= 1, "box_annotator_ohem_param.roi_per_img",
          "box_annotator_ohem_param.roi_per_img must be given and at least 1");
  const GraphBuilder& b = l.b();
  const Shape rois = l.shape(0);
  l.Check(rois.rank() >= 2 && rois[1] == 5, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be regions [N,5,..], found ", rois.ToString()));
  const int64_t regions = rois[0];
  const int64_t positions = rois.Count(2, rois.rank());
  CheckBottom(l, 1, regions, positions);
  CheckBottom(l, 2, regions, positions);
  const Shape weights = l.shape(3);
  l.Check(weights.rank() >= 2 && weights[0] == regions && weights.Count(2, weights.rank()) == positions, "bottom[3]",
          StrCat("bottom \"", l.param().bottom(3), "\" must be box weights [", regions, ",C,..] with ", positions,
                 " positions, found ", weights.ToString()));

  const auto flat = [&](int i) { return b.Reshape(Constant(l, l.bottom(i)), {regions * positions}); };
  const ValueId columns = b.Reshape(Constant(l, l.bottom(0)), {regions, 5, positions});
  const ValueId image = b.Add("slice", {columns}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 4}}})[0];
  const ValueId mask = b.Add1("hard_example_mask", {flat(1), b.Reshape(image, {regions * positions})},
                              {{"keep", int64_t{p.roi_per_img()}}});
  const ValueId labels = b.Pointwise(StrCat("select(x0,x1,", p.ignore_label(), ")"), {mask, flat(2)});
  l.SetTop(0, b.Reshape(labels, {regions, 1, rois.rank() > 2 ? rois[2] : 1, rois.rank() > 3 ? rois[3] : 1}));
  const ValueId kept =
      b.Pointwise("select(x0,x1,0)", {b.Reshape(mask, {regions, 1, positions}),
                                      b.Reshape(Constant(l, l.bottom(3)), {regions, weights[1], positions})});
  l.SetTop(1, b.Reshape(kept, weights));
}

}  // namespace

LayerDef BoxAnnotatorOhemLayer() {
  return {
      .type = "BoxAnnotatorOHEM",
      .doc =
          "Bottoms: regions [N,5,H,W] (or [N,5]; first the image's index), their losses [N,1,H,W], labels [N,1,H,W] "
          "and box weights [N,C,H,W]. Of each image the roi_per_img regions with the largest losses keep label and "
          "weights; the other labels become box_annotator_ohem_param.ignore_label (default -1), the other weights "
          "0. Regions with a negative image index are padding and never kept. No gradients.",
      .min_bottoms = 4,
      .max_bottoms = 4,
      .min_tops = 2,
      .max_tops = 2,
      .build = BuildBoxAnnotatorOhem,
      .page = {
          .params = {"box_annotator_ohem_param"},
          .formula = "Each of the N * H * W positions belongs to the image whose index (truncated) is its region's "
                     "first number. A position is kept if its loss is among the roi_per_img largest of its image; of "
                     "equal losses the earlier is kept. Positions with a negative index are padding and never "
                     "kept.\n\nTop 0 [N,1,H,W]: the label where the position is kept, else ignore_label. Top 1, of the "
                     "box weights' shape [N,C,H,W]: the weights where the position is kept, else 0.",
          .gradient = "None: no bottom gets one.",
          .source = "Online hard example mining (Shrivastava, Gupta, Girshick, arXiv 1604.03540); R-FCN's Caffe (Dai "
                    "et al., arXiv 1605.06409), box_annotator_ohem_layer.",
          .example = R"(layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "loss" type: "Input" top: "loss" input_param { shape { dim: 4 dim: 1 dim: 1 dim: 1 } } }
layer { name: "labels" type: "Input" top: "labels" input_param { shape { dim: 4 dim: 1 dim: 1 dim: 1 } } }
layer { name: "weights" type: "Input" top: "weights" input_param { shape { dim: 4 dim: 8 dim: 1 dim: 1 } } }
layer {
  name: "hard"
  type: "BoxAnnotatorOHEM"
  bottom: "rois"
  bottom: "loss"
  bottom: "labels"
  bottom: "weights"
  top: "hard_labels"
  top: "hard_weights"
  box_annotator_ohem_param { roi_per_img: 2 ignore_label: -1 }
})"}};
}

}  // namespace moka

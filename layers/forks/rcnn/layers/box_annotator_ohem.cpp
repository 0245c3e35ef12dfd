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
  const ValueId label = flat(2);
  const ValueId labels = Computed(b, Select(Term::Of(mask), Term::Of(label), p.ignore_label()));
  l.SetTop(0, b.Reshape(labels, {regions, 1, rois.rank() > 2 ? rois[2] : 1, rois.rank() > 3 ? rois[3] : 1}));
  const ValueId kept =
      b.Pointwise("select(x0,x1,0)", {b.Reshape(mask, {regions, 1, positions}),
                                      b.Reshape(Constant(l, l.bottom(3)), {regions, weights[1], positions})});
  l.SetTop(1, b.Reshape(kept, weights));
}

}  // namespace

LayerDef BoxAnnotatorOhemLayer() {
  return {.type = "BoxAnnotatorOHEM",
          .min_bottoms = 4,
          .max_bottoms = 4,
          .min_tops = 2,
          .max_tops = 2,
          .build = BuildBoxAnnotatorOhem,
          .params = {"box_annotator_ohem_param"}};
}

}  // namespace moka

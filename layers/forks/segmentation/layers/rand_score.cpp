// RandScore: how well scores of an inside cut pictures into regions (ISBI's membranes): the foreground-restricted Rand
// F-score, which pixel accuracy says little of, since one missing border pixel joins two cells.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRandScore(LayerBuilder& l) {
  const RandScoreParameter& p = l.param().rand_score_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x[1] >= 2, "bottom[0]",
          StrCat("the scores must be [N,C,H,W] of at least 2 classes, found ", x.ToString()));
  CheckLabelCount(l, 1);
  l.Check(p.object_label() >= 0 && p.object_label() < x[1], "rand_score_param.object_label",
          StrCat("rand_score_param.object_label must be a class from 0 to ", x[1] - 1, ", found ", p.object_label()));
  const double threshold = Finite(l, "rand_score_param.threshold", p.threshold());
  const GraphBuilder& b = l.b();
  const ValueId probability = b.Add1("softmax", {l.bottom(0)}, {{"axis", int64_t{1}}});
  const ValueId scores = b.Add1("rand_score", {probability, b.Reshape(l.bottom(1), x.With(1, 1))},
                                {{"object_label", int64_t{p.object_label()}},
                                 {"threshold", threshold},
                                 {"least_pixels", int64_t{p.least_pixels()}}});
  const ValueId means = b.Pointwise(StrCat("x0/", x[0]), {b.ReduceSum(scores, {0})});
  const std::vector<ValueId> three =
      b.Add("slice", {b.Reshape(means, {3})}, {{"axis", int64_t{0}}, {"sizes", Ints{1, 1, 1}}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, b.Reshape(three[static_cast<size_t>(i)], Shape{}));
}

}  // namespace

LayerDef RandScoreLayer() {
  return {
      .type = "RandScore",
      .doc =
          "From scores [N,C,H,W] and labels [N,1,H,W] the foreground-restricted Rand F-score of the regions, a mean "
          "over the pictures; a second and third top are its merge and split scores. rand_score_param: object_label, "
          "threshold, least_pixels. No gradient.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 3,
      .build = BuildRandScore,
      .page = {
          .params = {"rand_score_param"},
          .formula =
              "Predicted regions are the connected pixels (4 neighbours) whose softmax probability of `object_label` "
              "is "
              "above `threshold`, of at least `least_pixels`; each other pixel joins the region that it is fewest "
              "steps "
              "from, so borders have no width. Regions of the labels are the connected pixels of `object_label`; all "
              "other pixels count nowhere. With n_ij the pixels of the labels' region i in the predicted region j: "
              "`split = sum n_ij^2 / sum_i (sum_j n_ij)^2`, `merge = sum n_ij^2 / sum_j (sum_i n_ij)^2`, and `F = 2 "
              "sum n_ij^2 / (sum_i (sum_j n_ij)^2 + sum_j (sum_i n_ij)^2)`. Tops, scalars: the means over the batch "
              "of F, merge and split. A picture without a region of the labels has 1.",
          .gradient = "None.",
          .source = "Arganda-Carreras et al., \"Crowdsourcing the creation of image segmentation algorithms for "
                    "connectomics\", Frontiers in Neuroanatomy, 2015: V_Rand. The challenge thins predicted borders to "
                    "a pixel and takes the best threshold; here they have no width, at one threshold.",
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 2 dim: 2 dim: 8 dim: 8 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } } }
layer {
  name: "rand"
  type: "RandScore"
  bottom: "scores"
  bottom: "label"
  top: "rand"
  top: "rand_merge"
  top: "rand_split"
})"}};
}

}  // namespace moka

// RandScore: how well scores of an inside cut images into regions (ISBI's membranes): the foreground-restricted Rand
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
  const ValueId means = Computed(b, Term::Of(b.ReduceSum(scores, {0})) / x[0]);
  const std::vector<ValueId> three =
      b.Add("slice", {b.Reshape(means, {3})}, {{"axis", int64_t{0}}, {"sizes", Ints{1, 1, 1}}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, b.Reshape(three[static_cast<size_t>(i)], Shape{}));
}

}  // namespace

LayerDef RandScoreLayer() {
  return {.type = "RandScore",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 3,
          .build = BuildRandScore,
          .params = {"rand_score_param"}};
}

}  // namespace moka

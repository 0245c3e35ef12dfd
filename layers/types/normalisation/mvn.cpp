// Mean-variance normalisation: (x - mean) / (sqrt(variance) + eps) of each item and channel, or of each item.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

void BuildMvn(LayerBuilder& l) {
  const MVNParameter& p = l.param().mvn_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  const double eps = Finite(l, "mvn_param.eps", p.eps());
  Ints axes;
  for (int i = p.across_channels() ? 1 : 2; i < x.rank(); ++i) axes.push_back(i);
  const auto count = static_cast<double>(x.Count(axes.empty() ? x.rank() : static_cast<int>(axes[0]), x.rank()));
  const auto mean = [&](const Term& term) {
    return Term::Of(Computed(b, Term::Of(Summed(b, term, axes)) / Decimal(count)));
  };
  const Term centered = l.Bottom(0) - mean(l.Bottom(0));
  if (!p.normalize_variance()) return l.SetTop(0, centered);
  const Term variance = mean(Square(centered));
  // Where nothing varies the root has no slope; like Caffe's the gradient is then that of (x - mean) / eps.
  l.SetTop(0, centered / (Select(variance > 0, Sqrt(variance), 0) + Decimal(eps)));
}

}  // namespace

LayerDef MvnLayer() {
  return {.type = "MVN",
          .build = BuildMvn,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .needs = NeedPictures,
          .params = {"mvn_param"}};
}

}  // namespace moka

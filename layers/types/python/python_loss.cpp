// pycaffe's example of a loss in Python.
#include "core/text.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

// A Python layer is a loss only if the net gives it a loss_weight.
void BuildEuclidean(LayerBuilder& l, const PythonFields&) {
  const Shape x = l.shape(0);
  l.Check(x.Count() == l.shape(1).Count() && x.rank() >= 1, "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 l.shape(1).ToString(), " must have the same count"));
  const GraphBuilder& b = l.b();
  const ValueId squares = b.Pointwise("(x0-x1)*(x0-x1)", {l.bottom(0), b.Reshape(l.bottom(1), x)});
  const Term sum = Term::Of(b.SumAll(squares));
  l.SetTop(0, b.Reshape(Computed(b, sum / (Size(2) * x[0]).value()), Shape{1}));
}

}  // namespace

std::vector<PythonLayerDef> LossPythonLayers() {
  return {
      {.module = "pyloss",
       .layer = "EuclideanLossLayer",
       .doc = "half the mean over the batch of the summed squared differences of two bottoms; give it a loss_weight.",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .build = BuildEuclidean}};
}

}  // namespace moka

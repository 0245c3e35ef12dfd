// The loss has the given value; each gradient enters as a sum of dx * (x - x), which is 0 and of which the derivative
// sees the first x alone.
#include "layers/types/loss/own_gradient.h"

#include "core/text.h"

namespace moka {

ValueId Constant(const LayerBuilder& l, ValueId x) { return l.b().Add1("stop_gradient", {x}); }

Ints AllAxes(int rank) {
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

ValueId SumOf(const LayerBuilder& l, const std::string& expr, const std::vector<ValueId>& inputs) {
  const Ints axes = AllAxes(l.b().shape(inputs[0]).rank());
  return l.b().Reshape(l.b().Add1("reduce_sum", inputs, {{"expr", expr}, {"axes", axes}}), Shape{});
}

ValueId SumOf(const LayerBuilder& l, const Term& term, std::vector<ValueId> first) {
  const std::vector<ValueId> inputs = term.Values(std::move(first));
  return SumOf(l, term.Text(inputs), inputs);
}

ValueId WithGradients(const LayerBuilder& l, ValueId value, const std::vector<OwnGradient>& gradients) {
  Term sum = Term::Of(Constant(l, value));
  for (const auto& [x, dx] : gradients) {
    sum = sum + Term::Of(SumOf(l, "x1*(x0-x2)", {x, Constant(l, dx), Constant(l, x)}));
  }
  return Computed(l.b(), sum);
}

ValueId Like0(const LayerBuilder& l, int i) {
  const Shape x = l.shape(0);
  const Shape y = l.shape(i);
  l.Check(x.rank() >= 1 && y.rank() >= 1 && x[0] == y[0] && x.Count() == y.Count(), StrCat("bottom[", i, "]"),
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(i), "\" ",
                 y.ToString(), " must have one batch and one count"));
  return l.b().Reshape(l.bottom(i), Shape(x));
}

ValueId Vectors(const LayerBuilder& l, int i) {
  const Shape x = l.shape(i);
  l.Check(x.rank() >= 2 && x.Count() == x[0] * x[1], StrCat("bottom[", i, "]"),
          StrCat("bottom \"", l.param().bottom(i), "\" must be vectors [N,C], found ", x.ToString()));
  l.Check(x[0] == l.shape(0)[0] && x[1] == l.shape(0)[1], StrCat("bottom[", i, "]"),
          StrCat("bottoms \"", l.param().bottom(0), "\" ", l.shape(0).ToString(), " and \"", l.param().bottom(i), "\" ",
                 x.ToString(), " must have one shape"));
  return l.b().Reshape(l.bottom(i), {x[0], x[1]});
}

LabelledRows RowsWithLabels(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1, "bottom[0]", "the predictions need at least one axis");
  const int64_t count = x[0];
  l.Check(l.shape(1).Count() == count, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" ", l.shape(1).ToString(), " has ", l.shape(1).Count(),
                 " labels but bottom \"", l.param().bottom(0), "\" ", x.ToString(), " has ", count, " items"));
  const Ints shape{count, x.Count() / count};
  const ValueId mask = l.b().Add1("label_mask", {Constant(l, l.bottom(1))}, {{"shape", shape}, {"axis", int64_t{1}}});
  return {l.b().Reshape(l.bottom(0), Shape(shape)), mask, count};
}

}  // namespace moka

// The expectation of the draw, sum x^2 / sum x over a window, is a ratio of two average poolings.
#include "layers/types/pooling/stochastic_pooling.h"

#include "layers/net/random_stream.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

// sum x^2 / sum x. Averages that count no padding: the divisors cancel.
ValueId WeightedMean(const LayerBuilder& l, Attributes geometry) {
  const Ints none(geometry.Get<Ints>("kernel").size(), 0);
  geometry.Set("count_begin", none);
  geometry.Set("count_end", none);
  const ValueId square = l.b().Pointwise("x0*x0", {l.bottom(0)});
  const ValueId squares = l.b().Add1("pool_average", {square}, geometry);
  const ValueId sums = l.b().Add1("pool_average", {l.bottom(0)}, geometry);
  return l.b().Pointwise("select(gt(x1,0),x0/x1,0)", {squares, sums});
}

}  // namespace

ValueId StochasticPool(LayerBuilder& l, const Attributes& geometry, uint64_t draw) {
  if (l.phase() == TEST) return WeightedMean(l, geometry);
  const GraphBuilder& b = l.b();
  const Shape y = PoolOutput("pool_stochastic", geometry, l.shape(0));
  // One number a window: the zeros only give the shape.
  const ValueId zeros = b.Full(y, 0);
  const Term drawn = Uniform(l, draw);
  const ValueId u = b.Pointwise(Term::Of(zeros) + drawn, {zeros, l.RandomKey()});
  return b.Add("pool_stochastic", {l.bottom(0), u}, geometry)[0];
}

}  // namespace moka

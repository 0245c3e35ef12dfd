// Losses of differences that single forks have: ManhattanLoss (joint-regressor), EuclideanLoss6 and
// CosineSimilarityLoss (ARL, action units of faces), K1_EuclideanLoss and K2_EuclideanLoss (SSDH, hashing).
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

struct Pair {
  ValueId a;
  ValueId b;  // of a's shape
  int64_t batch;
};

Pair ReadPair(const LayerBuilder& l) {
  const ValueId other = Like0(l, 1);
  return {l.bottom(0), other, l.shape(0)[0]};
}

void SetWithGradient(LayerBuilder& l, const Pair& pair, ValueId loss, ValueId da) {
  l.SetTop(0, WithGradients(l, loss, {{pair.a, da}, {pair.b, l.b().Pointwise("-x0", {da})}}));
  l.SetLoss(0, 1);
}

void BuildManhattan(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Pair pair = ReadPair(l);
  const ValueId sum = SumOf(l, "abs(x0-x1)", {Constant(l, pair.a), Constant(l, pair.b)});
  const Term d = Term::Of(pair.a) - Term::Of(pair.b);
  const ValueId da = Computed(b, d / (Abs(d) + 1e-3) / pair.batch);
  SetWithGradient(l, pair, Computed(b, Term::Of(sum) / pair.batch), da);
}

// Labels of 9 are missing ones.
void BuildEuclidean6(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Pair pair = ReadPair(l);
  const ValueId weight = Constant(l, Like0(l, 2));
  const ValueId label = Constant(l, pair.b);
  const ValueId d = b.Pointwise("select(lt(abs(x1-9),1e-4),0,(x0-x1)*x2)", {Constant(l, pair.a), label, weight});
  const ValueId valid = l.MeanOverRanks(SumOf(l, "ge(abs(x0-9),1e-4)", {label}));
  const auto over_valid = [&](const Term& x, ValueId count) {
    return x / Max(Term::Of(count), Decimal(1 / static_cast<double>(l.ranks())));
  };
  const ValueId squares = SumOf(l, "x0*x0", {d});
  const ValueId loss = Computed(b, over_valid(Term::Of(squares), valid));
  SetWithGradient(l, pair, loss, Computed(b, over_valid(2 * Term::Of(d), b.Reshape(valid, Shape{}))));
}

void BuildCosine(LayerBuilder& l) {
  const Pair pair = ReadPair(l);
  const ValueId sum = SumOf(l, "x0*x1", {pair.a, pair.b});
  l.SetTop(0, 1 - Term::Of(sum) / pair.batch);
  l.SetLoss(0, 1);
}

// -sum (x - 1/2)^2 / (2 count N). The original gives bottom 1 the opposite of bottom 0's gradient: where both are one
// blob, as in SSDH's nets, nothing is left.
void BuildK1(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Pair pair = ReadPair(l);
  // Divides by the batch twice, so by that of all ranks once.
  const int64_t count = (Size(l.shape(0).Count()) * pair.batch * l.ranks()).value();
  const ValueId sum = SumOf(l, "(x0-0.5)*(x0-0.5)", {Constant(l, pair.a)});
  const ValueId da = Computed(b, -(Term::Of(Constant(l, pair.a)) - 0.5) / count);
  SetWithGradient(l, pair, Computed(b, -Term::Of(sum) / 2 / count), da);
}

// (mean - 1/2)^2 / (2 N), with the same two gradients.
void BuildK2(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  l.NoteUnequal("squares the mean over a batch, which is a part of it on each rank");
  const Pair pair = ReadPair(l);
  const int64_t count = l.shape(0).Count();
  const ValueId sum = SumOf(l, "x0", {Constant(l, pair.a)});
  const Term from_half = Term::Of(sum) / count - 0.5;
  const ValueId loss = Computed(b, Square(from_half) / (Size(2) * pair.batch).value());
  const ValueId da = Computed(b, 0 * Term::Of(Constant(l, pair.a)) + from_half / count / pair.batch);
  SetWithGradient(l, pair, loss, da);
}

}  // namespace

LayerDef CosineSimilarityLossLayer() {
  return {.type = "CosineSimilarityLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildCosine,
          .traits = {.is_loss = true},
          .needs = NeedEqualCounts};
}

LayerDef EuclideanLoss6Layer() {
  return {.type = "EuclideanLoss6",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = BuildEuclidean6,
          .traits = {.is_loss = true},
          .needs = NeedEqualCounts};
}

LayerDef K1EuclideanLossLayer() {
  return {.type = "K1_EuclideanLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildK1,
          .traits = {.is_loss = true}};
}

LayerDef K2EuclideanLossLayer() {
  return {.type = "K2_EuclideanLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildK2,
          .traits = {.is_loss = true}};
}

LayerDef ManhattanLossLayer() {
  return {.type = "ManhattanLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildManhattan,
          .traits = {.is_loss = true, .is_regression = true},
          .needs = NeedEqualCounts};
}

}  // namespace moka

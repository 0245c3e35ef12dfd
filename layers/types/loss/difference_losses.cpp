// Losses of differences that single forks have: ManhattanLoss (joint-regressor), EuclideanLoss6 and
// CosineSimilarityLoss (ARL, action units of faces), K1_EuclideanLoss and K2_EuclideanLoss (SSDH, hashing).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
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
  const ValueId da = b.Pointwise(StrCat("t0=x0-x1;t0/(abs(t0)+1e-3)/", pair.batch), {pair.a, pair.b});
  SetWithGradient(l, pair, b.Pointwise(StrCat("x0/", pair.batch), {sum}), da);
}

// Labels of 9 are missing ones.
void BuildEuclidean6(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Pair pair = ReadPair(l);
  const ValueId weight = Constant(l, Like0(l, 2));
  const ValueId label = Constant(l, pair.b);
  const ValueId d = b.Pointwise("select(lt(abs(x1-9),1e-4),0,(x0-x1)*x2)", {Constant(l, pair.a), label, weight});
  const ValueId valid = l.MeanOverRanks(SumOf(l, "ge(abs(x0-9),1e-4)", {label}));
  const std::string over = StrCat("x0/max(x1,", Number(1 / static_cast<double>(l.ranks())), ")");
  const ValueId loss = b.Pointwise(over, {SumOf(l, "x0*x0", {d}), valid});
  SetWithGradient(l, pair, loss, b.Pointwise(StrCat("2*", over), {d, b.Reshape(valid, Shape{})}));
}

void BuildCosine(LayerBuilder& l) {
  const Pair pair = ReadPair(l);
  const ValueId sum = SumOf(l, "x0*x1", {pair.a, pair.b});
  l.SetTop(0, l.b().Pointwise(StrCat("1-x0/", pair.batch), {sum}));
  l.SetLoss(0, 1);
}

// -sum (x - 1/2)^2 / (2 count N). The original gives bottom 1 the opposite of bottom 0's gradient: where both are one
// blob, as in SSDH's nets, nothing is left.
void BuildK1(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Pair pair = ReadPair(l);
  // Divides by the batch twice, so by that of all ranks once.
  const std::string count = StrCat((Size(l.shape(0).Count()) * pair.batch * l.ranks()).value());
  const ValueId sum = SumOf(l, "(x0-0.5)*(x0-0.5)", {Constant(l, pair.a)});
  const ValueId da = b.Pointwise(StrCat("-(x0-0.5)/", count), {Constant(l, pair.a)});
  SetWithGradient(l, pair, b.Pointwise(StrCat("-x0/2/", count), {sum}), da);
}

// (mean - 1/2)^2 / (2 N), with the same two gradients.
void BuildK2(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  l.NoteUnequal("squares the mean over a batch, which is a part of it on each rank");
  const Pair pair = ReadPair(l);
  const std::string count = StrCat(l.shape(0).Count());
  const ValueId sum = SumOf(l, "x0", {Constant(l, pair.a)});
  const ValueId loss = b.Pointwise(StrCat("t0=x0/", count, "-0.5;t0*t0/", (Size(2) * pair.batch).value()), {sum});
  const ValueId da =
      b.Pointwise(StrCat("0*x0+(x1/", count, "-0.5)/", count, "/", pair.batch), {Constant(l, pair.a), sum});
  SetWithGradient(l, pair, loss, da);
}

LayerPage SsdhPage(const std::string& type, const std::string& formula, const std::string& gradient) {
  return {.params = {},
          .formula = formula,
          .gradient = gradient +
                      " Bottom 1 gets the opposite, so that nothing is left where both bottoms are one blob, "
                      "as in the published nets.",
          .source = "Supervised semantics-preserving deep hashing (Yang, Lin, Chen, arXiv 1507.00101); SSDH's Caffe.",
          .example = StrCat(R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "loss" type: ")",
                            type, R"(" bottom: "x" bottom: "x" top: "loss" })")};
}

}  // namespace

LayerDef CosineSimilarityLossLayer() {
  return {
      .type = "CosineSimilarityLoss",
      .doc =
          "1 minus the mean over the batch of the inner products of the bottoms' items, which are meant to have norm 1 "
          "(L2Norm). No fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildCosine,
      .page = {.params = {},
               .formula =
                   "`y = 1 - sum of a b / N`, a scalar; a and b have one batch N and one number of elements. Its "
                   "loss weight is 1 unless given.",
               .gradient = "`da = -dy b / N`, `db = -dy a / N`.",
               .source = "Facial action unit detection using attention and relation learning (Shao et al., arXiv "
                         "1808.03457); ARL's Caffe, cosine_similarity_loss_layer.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "loss" type: "CosineSimilarityLoss" bottom: "a" bottom: "b" top: "loss" })"}};
}

LayerDef EuclideanLoss6Layer() {
  return {
      .type = "EuclideanLoss6",
      .doc =
          "Bottoms: predictions, labels and a weight for each. The mean of the squared weighted differences over the "
          "labels that are not missing, which a label of 9 is. No fields.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .auto_tops = true,
      .build = BuildEuclidean6,
      .page = {.params = {},
               .formula = "`y = sum of (w (a - b))^2 / K`, a scalar, over the K elements with `|b - 9| >= 1e-4` (0 if "
                          "there is none). Its loss weight is 1 unless given.",
               .gradient = "`da = dy 2 w (a - b) / K`, with w once, and `db = -da`; missing labels make none. The "
                           "weights get none.",
               .source = "Facial action unit detection using attention and relation learning (Shao et al., arXiv "
                         "1808.03457); ARL's Caffe, euclidean_loss_layer.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "w" type: "Input" top: "w" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "loss" type: "EuclideanLoss6" bottom: "a" bottom: "b" bottom: "w" top: "loss" })"}};
}

LayerDef K1EuclideanLossLayer() {
  return {.type = "K1_EuclideanLoss",
          .doc =
              "What pushes values away from 1/2, to the ends of a sigmoid's range. The second bottom must have the "
              "first's batch and count. No fields.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildK1,
          .page = SsdhPage("K1_EuclideanLoss",
                           "`y = -sum of (x - 1/2)^2 / (2 K N)`, a scalar, K the number of elements, N the batch. Its "
                           "loss weight is 1 unless given.",
                           "`dx = -dy (x - 1/2) / (K N)`.")};
}

LayerDef K2EuclideanLossLayer() {
  return {.type = "K2_EuclideanLoss",
          .doc =
              "What draws the mean of all values to 1/2. The second bottom must have the first's batch and count. No "
              "fields.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildK2,
          .page = SsdhPage("K2_EuclideanLoss",
                           "`y = (m - 1/2)^2 / (2 N)`, a scalar, m the mean of x's K elements, N the batch. Its loss "
                           "weight is 1 unless given.",
                           "`dx = dy (m - 1/2) / (K N)`.")};
}

LayerDef ManhattanLossLayer() {
  return {
      .type = "ManhattanLoss",
      .doc = "The sum of the magnitudes of the bottoms' differences divided by the batch. No fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildManhattan,
      .page = {.params = {},
               .formula = "`y = sum of |a - b| / N`, a scalar; a and b have one batch N and one number of elements. "
                          "Its loss weight is 1 unless given.",
               .gradient = "`da = dy (a - b) / (|a - b| + 1e-3) / N`, `db = -da`.",
               .source = "The manhattan_loss_layer of joint-regressor's Caffe, whose gradient is smoothed where the "
                         "difference is small.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "loss" type: "ManhattanLoss" bottom: "a" bottom: "b" top: "loss" })"}};
}

}  // namespace moka

// softmax_loss of scores whose columns are split among the ranks, where they lie: of each row a rank's largest score,
// the sum of exponentials below it and the label's score go to all, and nobody has a row's K scores (the classifiers of
// face recognition: Deng et al., ArcFace, arXiv 1801.07698; An et al., arXiv 2203.15565).
//
// For a row let m = max m_r, s = sum of s_r exp(m_r - m), p = exp(x - m) / s, and the loss m + log s - x[label], at
// most -log FLT_MIN as that of softmax_loss. dx = (p - onehot(label)) * dloss of the row's rank.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/on_host.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {
namespace {

constexpr const char* kName = "split_softmax_loss";
constexpr const char* kBackwardName = "split_softmax_loss_backward";

struct SplitSoftmaxLossColumns {
  explicit SplitSoftmaxLossColumns(const Attributes& attributes)
      : of(attributes),
        all(attributes.Int("columns")),
        first(PartBegin(all, of.ranks, of.rank)),
        count(PartBegin(all, of.ranks, of.rank + 1) - first) {}
  RankOf of;
  int64_t all;
  int64_t first;
  int64_t count;
};

void CheckSplitLoss(const char* name, const Attributes& attributes, const TensorType& x, const TensorType& label) {
  CheckFloat(name, "x", x);
  CheckRank(name, attributes);
  const SplitSoftmaxLossColumns columns(attributes);
  if (columns.all < columns.of.ranks || x.shape.rank() != 2 || x.shape[1] != columns.count ||
      x.shape[0] % columns.of.ranks != 0 || label.shape.Count() != x.shape[0]) {
    throw Error(ErrorKind::kConfig,
                StrCat(name, ": of ", columns.all, " columns rank ", columns.of.rank, " of ", columns.of.ranks, " has ",
                       columns.count, ", so x must be [n*", columns.of.ranks, ",", columns.count,
                       "] with a label a row, found ", x.shape.ToString(), " and ", label.shape.ToString()));
  }
}

std::vector<TensorType> InferSplitSoftmaxLoss(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kName, in, 2, 2);
  CheckSplitLoss(kName, attributes, in[0], in[1]);
  const TensorType scalar = PlainType(StatisticsType(in[0].dtype), Shape{});
  return {scalar, scalar, PlainType(in[0].dtype, in[0].shape)};
}

// Where there is no exchange, the columns are all there are, and a label of others' counts with a score of 0.
void SplitSoftmaxLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const SplitSoftmaxLossColumns columns(attributes);
  const int64_t n = in[0].type.shape[0] / columns.of.ranks;
  out[0].values[0] = out[1].values[0] = 0;
  for (int64_t i = 0; i < in[0].type.shape[0]; ++i) {
    const double* x = in[0].values.data() + i * columns.count;
    double* p = out[2].values.data() + i * columns.count;
    const double max = *std::max_element(x, x + columns.count);
    double sum = 0;
    for (int64_t k = 0; k < columns.count; ++k) sum += p[k] = std::exp(x[k] - max);
    for (int64_t k = 0; k < columns.count; ++k) p[k] /= sum;
    const int64_t label = ReadLabel(attributes, in[1].values[static_cast<size_t>(i)], columns.all);
    if (label < 0 || i / n != columns.of.rank) continue;
    const int64_t own = label - columns.first;
    const double score = own >= 0 && own < columns.count ? x[own] : 0;
    out[0].values[0] -= std::log(std::max(std::exp(score - max) / sum, double{FLT_MIN}));
    out[1].values[0] += 1;
  }
}

// Returns the `values` of every rank, a row each.
ValueId GatherOf(GradientContext& c, ValueId values, int64_t key) {
  const RankOf of(c.attributes());
  return c.b().Add1("gather_rows", {c.b().Reshape(values, {1, c.b().shape(values).Count()})},
                    {{"key", c.attributes().Int("key") + key}, {"rank", of.rank}, {"ranks", of.ranks}});
}

// Through the loss, and through the probability: p * (dy - sum of p * dy over all columns).
void SplitSoftmaxLossGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  ValueId dx = kNoId;
  if (c.dy(0) != kNoId) {
    dx = c.b().Add1(kBackwardName, {c.y(2), c.x(1), GatherOf(c, c.dy(0), kBackwardKey)}, c.attributes());
  }
  if (c.dy(2) != kNoId) {
    const ValueId own = c.b().ReduceSum(c.b().Pointwise("x0*x1", {c.y(2), c.dy(2)}), {1});
    const ValueId all = c.b().ReduceSum(GatherOf(c, own, kBackwardKey + 1), {0});
    const ValueId sums = c.b().Reshape(all, {c.b().shape(all).Count(), 1});
    const ValueId more = c.b().Pointwise("x0*(x1-x2)", {c.y(2), c.dy(2), sums});
    dx = dx == kNoId ? more : c.b().Pointwise("x0+x1", {dx, more});
  }
  if (dx != kNoId) c.SetDx(0, dx);
}

std::vector<TensorType> InferBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kBackwardName, in, 3, 3);
  CheckSplitLoss(kBackwardName, attributes, in[0], in[1]);
  CheckShape(kBackwardName, "dloss", in[2].shape, Shape{attributes.Int("ranks"), 1}, "one of each rank");
  return {PlainType(in[0].dtype, in[0].shape)};
}

void ReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const SplitSoftmaxLossColumns columns(attributes);
  const int64_t n = in[0].type.shape[0] / columns.of.ranks;
  for (int64_t i = 0; i < in[0].type.shape[0]; ++i) {
    const int64_t label = ReadLabel(attributes, in[1].values[static_cast<size_t>(i)], columns.all);
    const double dloss = label < 0 ? 0 : in[2].values[static_cast<size_t>(i / n)];
    for (int64_t k = 0; k < columns.count; ++k) {
      const auto at = static_cast<size_t>(i * columns.count + k);
      out[0].values[at] = (in[0].values[at] - (label == columns.first + k ? 1 : 0)) * dloss;
    }
  }
}

std::vector<OpCase> MakeCases(bool backward) {
  struct Example {
    const char* name;
    int64_t rank, ranks, rows, columns;
    bool has_ignore;
  };
  std::vector<OpCase> cases;
  for (const Example& e :
       {Example{"one_rank", 0, 1, 5, 7, false}, Example{"first_of_three", 0, 3, 6, 10, false},
        Example{"last_of_three", 2, 3, 6, 10, true}, Example{"many_columns", 1, 2, 4, 1000, false}}) {
    OpCase c{.name = e.name,
             .inputs = {},
             .attributes = {{"key", int64_t{4}},
                            {"rank", e.rank},
                            {"ranks", e.ranks},
                            {"columns", e.columns},
                            {"has_ignore", e.has_ignore},
                            {"ignore_label", int64_t{9}}},
             .low = backward ? 0.0 : -3.0,
             .high = backward ? 1.0 : 3.0,
             .ranges = {{1, 0.0, static_cast<double>(e.columns - 1)}}};
    c.inputs = {Float32({e.rows, SplitSoftmaxLossColumns(c.attributes).count}), Float32({e.rows})};
    if (backward) c.inputs.push_back(Float32({e.ranks, 1}));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<AttributeSpec> SplitLossFields() {
  std::vector<AttributeSpec> fields = RankAttributes();
  fields.push_back({"columns", {}, "classes: columns of the whole matrix"});
  fields.push_back({"has_ignore", false, "whether ignore_label is used"});
  fields.push_back({"ignore_label", int64_t{0}, "labels with this value count for nothing"});
  return fields;
}

}  // namespace

OpDef SplitSoftmaxLossOp() {
  return {.name = kName,
          .doc =
              "(x [n*ranks,k], label of all rows) -> loss_sum, valid_count (scalars), probability like x: x are all "
              "ranks' rows of this rank's columns, the sums are of this rank's rows, over all columns.",
          .attributes = SplitLossFields(),
          .infer = InferSplitSoftmaxLoss,
          .reference = SplitSoftmaxLossReference,
          .gradient = SplitSoftmaxLossGradient,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSplits,
          .cases = [] { return MakeCases(false); }};
}

OpDef SplitSoftmaxLossBackwardOp() {
  return {.name = kBackwardName,
          .doc = "(probability, label of all rows, dloss [ranks,1]) -> dx like probability.",
          .attributes = SplitLossFields(),
          .infer = InferBackward,
          .reference = ReferenceBackward,
          .may_overwrite = [](const Attributes&, int input, int) { return input == 0; },
          .precision = Precision::kKeep32,
          .on_host = on_host::kSplits,
          .cases = [] { return MakeCases(true); }};
}

}  // namespace moka

// The best path of CTC's classes read as labels, and how far label sequences lie apart.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferDecode(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("ctc_decode", in, 2, 2);
  CheckFloat("ctc_decode", "x", in[0]);
  const Shape& x = in[0].shape;
  const int64_t blank = attributes.Int("blank");
  if (x.rank() != 3 || x.Count() < 1 || blank < 0 || blank >= x[2]) {
    throw Error(ErrorKind::kConfig,
                StrCat("ctc_decode: x must be [T,N,C] with class ", blank, " among its classes, found ", x.ToString()));
  }
  CheckShape("ctc_decode", "length", in[1].shape, {x[1]}, "one a sequence");
  return {PlainType(DType::kFloat32, {x[1], x[0]}), PlainType(StatisticsType(in[0].dtype), {x[1]})};
}

void ReferenceDecode(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const int64_t blank = attributes.Int("blank");
  const bool merges = attributes.Bool("merge_repeated");
  out[0].values.assign(out[0].values.size(), -1);
  for (int64_t n = 0; n < x[1]; ++n) {
    int64_t before = -1;
    int64_t found = 0;
    double score = 0;
    for (int64_t t = 0; t < x[0] && static_cast<double>(t) < in[1].values[static_cast<size_t>(n)]; ++t) {
      const double* row = &in[0].values[static_cast<size_t>((t * x[1] + n) * x[2])];
      const int64_t best = std::max_element(row, row + x[2]) - row;
      score -= row[best];
      if (best != blank && !(merges && best == before)) {
        out[0].values[static_cast<size_t>(n * x[0] + found++)] = static_cast<double>(best);
      }
      before = best;
    }
    out[1].values[static_cast<size_t>(n)] = score;
  }
}

std::vector<OpCase> DecodeCases() {
  const auto rules = [](int64_t blank, bool merges) {
    return Attributes{{"blank", blank}, {"merge_repeated", merges}};
  };
  return {{"merged", {Float32({6, 3, 4}), Float32({3})}, rules(3, true), -1, 1, {{1, 0, 6}}, 1e-3},
          {"unmerged", {Float32({6, 3, 2}), Float32({3})}, rules(0, false), -1, 1, {{1, 6, 6}}, 1e-3}};
}

std::vector<TensorType> InferDistance(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("edit_distance", in, 2, 2);
  const Shape& a = in[0].shape;
  const Shape& b = in[1].shape;
  if (a.rank() != 2 || b.rank() != 2 || a[0] != b[0]) {
    throw Error(ErrorKind::kConfig, StrCat("edit_distance: a and b must be [N,..] with one N, found ", a.ToString(),
                                           " and ", b.ToString()));
  }
  return {PlainType(DType::kFloat32, {a[0]}), PlainType(DType::kFloat32, {a[0]})};
}

std::vector<int64_t> ReadLabels(const RefTensor& x, int64_t row, int64_t left_out) {
  std::vector<int64_t> labels;
  const int64_t size = x.type.shape[1];
  for (int64_t i = 0; i < size; ++i) {
    const double value = x.values[static_cast<size_t>(row * size + i)];
    if (!(value >= 0 && value < 1e15)) break;
    const auto label = static_cast<int64_t>(value + 0.5);
    if (label != left_out) labels.push_back(label);
  }
  return labels;
}

// Levenshtein's distance, a row of the table at a time.
int64_t Distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

void ReferenceDistance(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  for (int64_t n = 0; n < in[0].type.shape[0]; ++n) {
    const std::vector<int64_t> a = ReadLabels(in[0], n, attributes.Int("left_out"));
    const std::vector<int64_t> b = ReadLabels(in[1], n, attributes.Int("left_out"));
    out[0].values[static_cast<size_t>(n)] = static_cast<double>(Distance(a, b));
    out[1].values[static_cast<size_t>(n)] = static_cast<double>(std::max(a.size(), b.size()));
  }
}

std::vector<OpCase> DistanceCases() {
  const auto without = [](int64_t label) { return Attributes{{"left_out", label}}; };
  return {{"some", {Float32({4, 5}), Float32({4, 3})}, without(-1), -1, 2, {{0, -1, 2}, {1, -1, 2}}},
          {"blanks", {Float32({4, 5}), Float32({4, 6})}, without(0), 0, 2, {{0, 0, 2}, {1, 0, 2}}}};
}

}  // namespace

OpDef CtcDecodeOp() {
  return {.name = "ctc_decode",
          .doc =
              "(x [T,N,C], length [N]) -> labels [N,T], score [N]: the largest class of each of the first length "
              "steps, without blanks and, if merged, repetitions, then -1 to the row's end; minus the sum of the "
              "largest values.",
          .attributes = {{"blank", {}, "the class that stands for no label"},
                         {"merge_repeated", true, "whether a run of one class is one label"}},
          .infer = InferDecode,
          .reference = ReferenceDecode,
          .precision = Precision::kKeep32,
          .on_host = on_host::kDecodes,
          .cases = DecodeCases};
}

OpDef EditDistanceOp() {
  return {.name = "edit_distance",
          .doc =
              "(a [N,K], b [N,L]) -> distance [N], longer [N]: the fewest labels inserted, deleted or changed that "
              "make a row of a the row of b, and the longer row's labels. A row ends at its first negative value.",
          .attributes = {{"left_out", int64_t{-1}, "a label that counts nothing; -1: none"}},
          .infer = InferDistance,
          .reference = ReferenceDistance,
          .precision = Precision::kKeep32,
          .on_host = on_host::kDecodes,
          .cases = DistanceCases};
}

}  // namespace moka

// Rows by index: y[m] = x[index[m]] along the first axis, zero where the index is the ignored one; and the sum back,
// dx[r] = sum of dy[m] over index[m] = r. An index that is neither a row nor ignored counts as ignored (kernels report
// it).
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

// Checks x [R, ...] or dy [M, ...] and index [M]; returns index's length.
int64_t IndexCount(std::string_view op, std::span<const TensorType> in) {
  CheckInputCount(op, in, 2, 2);
  CheckFloat(op, "index", in[1]);
  if (in[0].shape.rank() < 1 || in[1].shape.rank() != 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": needs rows [R, ...] and an index [M], found ", in[0].shape.ToString(),
                                           " and ", in[1].shape.ToString()));
  }
  return in[1].shape[0];
}

std::vector<TensorType> InferReindex(const Attributes&, std::span<const TensorType> in) {
  const int64_t count = IndexCount("reindex", in);
  return {PlainType(in[0].dtype, in[0].shape.With(0, count))};
}

// Calls f(row of the indexed side, m) for each index that counts.
template <class F>
void VisitReindexRows(const Attributes& attributes, const RefTensor& index, int64_t rows, F&& f) {
  for (size_t m = 0; m < index.values.size(); ++m) {
    const int64_t row = ReadLabel(attributes, index.values[m], rows);
    if (row >= 0) f(row, static_cast<int64_t>(m));
  }
}

void ReindexReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const int64_t row_size = x.Count(1, x.rank());
  std::ranges::fill(out[0].values, 0.0);
  VisitReindexRows(attributes, in[1], x[0], [&](int64_t row, int64_t m) {
    std::copy_n(in[0].values.begin() + row * row_size, row_size, out[0].values.begin() + m * row_size);
  });
}

void ReindexGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  Attributes attributes = c.attributes();
  attributes.Set("rows", c.b().shape(c.x(0))[0]);
  c.SetDx(0, c.b().Add1("reindex_backward", {c.dy(0), c.x(1)}, attributes));
}

std::vector<TensorType> InferReindexBackward(const Attributes& attributes, std::span<const TensorType> in) {
  const int64_t count = IndexCount("reindex_backward", in);
  CheckShape("reindex_backward", "dy", in[0].shape, in[0].shape.With(0, count), "a row an index");
  return {PlainType(in[0].dtype, in[0].shape.With(0, attributes.Int("rows")))};
}

void ReindexReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& dy = in[0].type.shape;
  const int64_t row_size = dy.Count(1, dy.rank());
  std::ranges::fill(out[0].values, 0.0);
  VisitReindexRows(attributes, in[1], attributes.Int("rows"), [&](int64_t row, int64_t m) {
    for (int64_t i = 0; i < row_size; ++i) {
      out[0].values[static_cast<size_t>(row * row_size + i)] += in[0].values[static_cast<size_t>(m * row_size + i)];
    }
  });
}

void ReindexGradientBackward(GradientContext& c) {
  if (!c.wants(0)) return;
  const Attributes& a = c.attributes();
  c.SetDx(0, c.b().Add1("reindex", {c.dy(0), c.x(1)},
                        {{"has_ignore", a.Bool("has_ignore")}, {"ignore_label", a.Int("ignore_label")}}));
}

std::vector<AttributeSpec> IndexAttributes() {
  return {{"has_ignore", false, "whether ignore_label is used"},
          {"ignore_label", int64_t{0}, "the index that stands for no row"}};
}

std::vector<OpCase> ReindexCases() {
  const Attributes padded{{"has_ignore", true}, {"ignore_label", int64_t{-1}}};
  return {{"rows", {Float32({5, 2, 3}), Float32({9})}, {}, -1, 1, {{1, 0, 4}}},
          {"one_row", {Float32({1, 70}), Float32({3})}, {}, -1, 1, {{1, 0, 0}}},
          {"numbers", {Float32({6}), Float32({4})}, {}, -1, 1, {{1, 0, 5}}},
          {"padded", {Float32({4, 3}), Float32({12})}, padded, -1, 1, {{1, -1, 3}}}};
}

std::vector<OpCase> ReindexBackwardCases() {
  const Attributes padded{{"rows", int64_t{4}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}};
  const auto rows = [](int64_t count) { return Attributes{{"rows", count}}; };
  return {{"rows", {Float32({9, 2, 3}), Float32({9})}, rows(5), -1, 1, {{1, 0, 4}}},
          {"one_row", {Float32({3, 70}), Float32({3})}, rows(1), -1, 1, {{1, 0, 0}}},
          {"numbers", {Float32({4}), Float32({4})}, rows(6), -1, 1, {{1, 0, 5}}},
          {"padded", {Float32({12, 3}), Float32({12})}, padded, -1, 1, {{1, -1, 3}}}};
}

}  // namespace

OpDef ReindexOp() {
  return {.name = "reindex",
          .doc = "(x [R, ...], index [M]) -> y [M, ...]: the rows of x that the index names.",
          .attributes = IndexAttributes(),
          .infer = InferReindex,
          .reference = ReindexReference,
          .gradient = ReindexGradient,
          .precision = Precision::kKeep32,
          .cases = ReindexCases};
}

OpDef ReindexBackwardOp() {
  std::vector<AttributeSpec> attributes = IndexAttributes();
  attributes.push_back({"rows", {}, "rows of dx"});
  return {.name = "reindex_backward",
          .doc = "(dy [M, ...], index [M]) -> dx [rows, ...]: each row of dy added to the row it came from.",
          .attributes = attributes,
          .infer = InferReindexBackward,
          .reference = ReindexReferenceBackward,
          .gradient = ReindexGradientBackward,
          .precision = Precision::kKeep32,
          .cases = ReindexBackwardCases};
}

}  // namespace moka

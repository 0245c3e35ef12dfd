// Rows of a table by index: y[i,:] = w[index[i],:], and the gradient that adds each row of dy to its row of the table.
// Indices are whole numbers kept in float tensors, as Caffe has them. An index that is no row of the table gives a row
// of NaN and a fault of the kernel, and has no part in the gradient.
#include <limits>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

std::vector<TensorType> InferEmbed(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("embed", in, 2, 2);
  CheckFloat("embed", "weight", in[1]);
  if (in[1].shape.rank() != 2) {
    throw Error(ErrorKind::kConfig, StrCat("embed: weight must be [rows,columns], found ", in[1].shape.ToString()));
  }
  Ints dims = DimsOf(in[0].shape);
  dims.push_back(in[1].shape[1]);
  return {PlainType(in[1].dtype, Shape(std::span<const int64_t>(dims)))};
}

void EmbedReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = in[1].type.shape[0];
  const int64_t columns = in[1].type.shape[1];
  for (int64_t i = 0; i < in[0].type.shape.Count(); ++i) {
    const int64_t row = ReadLabel(false, 0, in[0].values[static_cast<size_t>(i)], rows);
    for (int64_t j = 0; j < columns; ++j) {
      out[0].values[static_cast<size_t>(i * columns + j)] =
          row < 0 ? std::numeric_limits<double>::quiet_NaN() : in[1].values[static_cast<size_t>(row * columns + j)];
    }
  }
}

void EmbedGradient(GradientContext& c) {
  if (!c.wants(1)) return;
  c.SetDx(1, c.b().Add1("embed_backward", {c.x(0), c.dy(0)}, {{"rows", c.b().shape(c.x(1))[0]}}));
}

std::vector<TensorType> InferEmbedBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("embed_backward", in, 2, 2);
  CheckFloat("embed_backward", "dy", in[1]);
  const Shape& index = in[0].shape;
  const Shape& dy = in[1].shape;
  const int64_t rows = attributes.Int("rows");
  if (rows < 0) throw Error(ErrorKind::kConfig, StrCat("embed_backward: rows is ", rows));
  if (dy.rank() != index.rank() + 1) {
    throw Error(ErrorKind::kConfig,
                StrCat("embed_backward: dy ", dy.ToString(), " needs one axis more than index ", index.ToString()));
  }
  Ints dims = DimsOf(index);
  dims.push_back(dy[index.rank()]);
  CheckShape("embed_backward", "dy", dy, Shape(std::span<const int64_t>(dims)), "a row for each index");
  return {PlainType(in[1].dtype, Shape{rows, dy[index.rank()]})};
}

void EmbedReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = out[0].type.shape[0];
  const int64_t columns = out[0].type.shape[1];
  out[0].values.assign(out[0].values.size(), 0.0);
  for (int64_t i = 0; i < in[0].type.shape.Count(); ++i) {
    const int64_t row = ReadLabel(false, 0, in[0].values[static_cast<size_t>(i)], rows);
    for (int64_t j = 0; row >= 0 && j < columns; ++j) {
      out[0].values[static_cast<size_t>(row * columns + j)] += in[1].values[static_cast<size_t>(i * columns + j)];
    }
  }
}

// dw is linear in dy: the same rows are read back.
void EmbedGradientBackward(GradientContext& c) {
  if (c.wants(1)) c.SetDx(1, c.b().Add1("embed", {c.x(0), c.dy(0)}));
}

std::vector<OpCase> MakeEmbedCases(bool backward) {
  struct Example {
    const char* name;
    Shape index;
    int64_t rows, columns;
  };
  const std::vector<Example> examples = {
      {"words", {4, 3}, 7, 5}, {"one_axis", {9}, 4, 16}, {"one_row", {3}, 1, 4},          {"one_column", {2, 5}, 6, 1},
      {"scalar", {}, 3, 4},    {"wide", {3, 2}, 5, 130}, {"many_words", {40, 30}, 50, 9}, {"few_of_many", {5}, 200, 3},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    Ints dims = DimsOf(e.index);
    dims.push_back(e.columns);
    const Shape second = backward ? Shape(std::span<const int64_t>(dims)) : Shape{e.rows, e.columns};
    cases.push_back({.name = e.name,
                     .inputs = {{DType::kFloat32, e.index, {}}, {DType::kFloat32, second, {}}},
                     .attributes = backward ? Attributes{{"rows", e.rows}} : Attributes{},
                     .ranges = {{0, 0, static_cast<double>(e.rows - 1)}}});
  }
  return cases;
}

std::vector<OpCase> EmbedCases() { return MakeEmbedCases(false); }
std::vector<OpCase> EmbedBackwardCases() { return MakeEmbedCases(true); }

}  // namespace

OpDef EmbedOp() {
  return {.name = "embed",
          .doc = "(index [..], weight [rows,columns]) -> y [..,columns]: the row of weight that each index names.",
          .attributes = {},
          .infer = InferEmbed,
          .reference = EmbedReference,
          .gradient = EmbedGradient,
          .precision = Precision::kKeep32,
          .cases = EmbedCases};
}

OpDef EmbedBackwardOp() {
  return {
      .name = "embed_backward",
      .doc =
          "(index [..], dy [..,columns]) -> dweight [rows,columns]: each row of dy added to the row its index names.",
      .attributes = {{"rows", {}, "rows of the weight"}},
      .infer = InferEmbedBackward,
      .reference = EmbedReferenceBackward,
      .gradient = EmbedGradientBackward,
      .precision = Precision::kKeep32,
      .cases = EmbedBackwardCases};
}

}  // namespace moka

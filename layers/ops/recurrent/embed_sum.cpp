// Sums of a table's rows by index: y[i,:] = sum over j of l_j * w[index[i,j],:], a sentence as the sum of its words
// ("bag of words"), l = 1 or position weights. One op in place of embed, a product and a sum: rows of all words are
// never in memory, and places without a word cost nothing.
#include "layers/ops/recurrent/embed_sum.h"
#include "layers/ops/on_host.h"

#include <limits>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

std::vector<AttributeSpec> EmbedSumAttributes() {
  return {{"padding", int64_t{-1}, "an index that adds nothing and is no word; -1: none"},
          {"position", false, "whether words have position weights (layers/ops/recurrent/embed_sum.h)"}};
}

// The shape of the sums. Errors: kConfig for an index without an axis of words.
Shape EmbedSumShape(std::string_view op, const Shape& index, int64_t columns) {
  if (index.rank() < 1) throw Error(ErrorKind::kConfig, StrCat(op, ": index [] has no axis of words"));
  return index.With(index.rank() - 1, columns);
}

std::vector<TensorType> InferEmbedSum(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("embed_sum", in, 2, 2);
  CheckFloat("embed_sum", "weight", in[1]);
  if (in[1].shape.rank() != 2) {
    throw Error(ErrorKind::kConfig, StrCat("embed_sum: weight must be [rows,columns], found ", in[1].shape.ToString()));
  }
  return {PlainType(in[1].dtype, EmbedSumShape("embed_sum", in[0].shape, in[1].shape[1]))};
}

// Calls f(sentence, row or a negative number, weights) for each word that is not padding.
template <class F>
void VisitWords(const Attributes& attributes, const RefTensor& index, int64_t rows, int64_t columns, F&& f) {
  const int64_t padding = attributes.Int("padding");
  const Shape& shape = index.type.shape;
  const int64_t width = shape[shape.rank() - 1];
  const int64_t sentences = shape.Count(0, shape.rank() - 1);
  const auto at = [&](int64_t i, int64_t j) { return index.values[static_cast<size_t>(i * width + j)]; };
  const auto is_word = [&](double value) { return padding < 0 || value != static_cast<double>(padding); };
  for (int64_t i = 0; i < sentences; ++i) {
    int64_t words = 0;
    for (int64_t j = 0; j < width; ++j) words += is_word(at(i, j)) ? 1 : 0;
    int64_t word = 0;
    for (int64_t j = 0; j < width; ++j) {
      if (!is_word(at(i, j))) continue;
      ++word;
      const PositionWeights<double> weights =
          attributes.Bool("position") ? PositionWeightsOf<double>(word, words, columns) : PositionWeights<double>{};
      f(i, ReadLabel(false, 0, at(i, j), rows), weights);
    }
  }
}

void EmbedSumReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = in[1].type.shape[0];
  const int64_t columns = in[1].type.shape[1];
  out[0].values.assign(out[0].values.size(), 0.0);
  VisitWords(attributes, in[0], rows, columns, [&](int64_t i, int64_t row, const PositionWeights<double>& l) {
    for (int64_t k = 0; k < columns; ++k) {
      const double value =
          row < 0 ? std::numeric_limits<double>::quiet_NaN() : in[1].values[static_cast<size_t>(row * columns + k)];
      out[0].values[static_cast<size_t>(i * columns + k)] += (l.first + l.slope * static_cast<double>(k + 1)) * value;
    }
  });
}

void EmbedSumGradient(GradientContext& c) {
  if (!c.wants(1)) return;
  Attributes attributes = c.attributes();
  attributes.Set("rows", c.b().shape(c.x(1))[0]);
  c.SetDx(1, c.b().Add1("embed_sum_backward", {c.x(0), c.dy(0)}, attributes));
}

std::vector<TensorType> InferEmbedSumBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("embed_sum_backward", in, 2, 2);
  CheckFloat("embed_sum_backward", "dy", in[1]);
  const Shape& dy = in[1].shape;
  const int64_t rows = attributes.Int("rows");
  if (rows < 0) throw Error(ErrorKind::kConfig, StrCat("embed_sum_backward: rows is ", rows));
  if (dy.rank() < 1) throw Error(ErrorKind::kConfig, "embed_sum_backward: dy [] has no columns");
  const int64_t columns = dy[dy.rank() - 1];
  CheckShape("embed_sum_backward", "dy", dy, EmbedSumShape("embed_sum_backward", in[0].shape, columns),
             "a row for each sentence");
  return {PlainType(in[1].dtype, Shape{rows, columns})};
}

void EmbedSumReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t columns = out[0].type.shape[1];
  out[0].values.assign(out[0].values.size(), 0.0);
  VisitWords(
      attributes, in[0], out[0].type.shape[0], columns, [&](int64_t i, int64_t row, const PositionWeights<double>& l) {
        for (int64_t k = 0; row >= 0 && k < columns; ++k) {
          out[0].values[static_cast<size_t>(row * columns + k)] +=
              (l.first + l.slope * static_cast<double>(k + 1)) * in[1].values[static_cast<size_t>(i * columns + k)];
        }
      });
}

// dw is linear in dy: the same words are read back.
void EmbedSumGradientBackward(GradientContext& c) {
  if (!c.wants(1)) return;
  const Attributes& a = c.attributes();
  c.SetDx(
      1, c.b().Add1("embed_sum", {c.x(0), c.dy(0)}, {{"padding", a.Int("padding")}, {"position", a.Bool("position")}}));
}

std::vector<OpCase> MakeEmbedSumCases(bool backward) {
  struct Example {
    const char* name;
    Shape index;
    int64_t rows, columns, padding;
    bool position;
  };
  const std::vector<Example> examples = {
      {"bags", {4, 3}, 7, 5, -1, false},
      {"story", {2, 3, 6}, 4, 20, 0, true},
      {"sentence", {5}, 9, 16, 2, true},
      {"one_word", {7, 1}, 3, 4, 0, false},
      {"one_column", {3, 4}, 5, 1, -1, true},
      {"all_padding", {3, 2}, 1, 4, 0, true},
      {"many_words", {40, 30}, 50, 9, 0, false},
      {"wide", {3, 2}, 5, 130, -1, true},
      {"long_sentences", {3, 140}, 9, 50, 0, true},
      {"three_lines", {6, 5}, 8, 37, 1, true},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    const Shape sums = e.index.With(e.index.rank() - 1, e.columns);
    OpCase c{
        .name = e.name,
        .inputs = {{DType::kFloat32, e.index, {}}, {DType::kFloat32, backward ? sums : Shape{e.rows, e.columns}, {}}},
        .attributes = {{"padding", e.padding}, {"position", e.position}},
        .ranges = {{0, 0, static_cast<double>(e.rows - 1)}}};
    if (backward) c.attributes.Set("rows", e.rows);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> EmbedSumCases() { return MakeEmbedSumCases(false); }
std::vector<OpCase> EmbedSumBackwardCases() { return MakeEmbedSumCases(true); }

}  // namespace

OpDef EmbedSumOp() {
  return {.name = "embed_sum",
          .doc =
              "(index [..,words], weight [rows,columns]) -> y [..,columns]: the sum of the rows of weight that the "
              "indices along the last axis name.",
          .attributes = EmbedSumAttributes(),
          .infer = InferEmbedSum,
          .reference = EmbedSumReference,
          .gradient = EmbedSumGradient,
          .precision = Precision::kKeep32,
          .on_host = on_host::kRare,
          .cases = EmbedSumCases};
}

OpDef EmbedSumBackwardOp() {
  std::vector<AttributeSpec> attributes = EmbedSumAttributes();
  attributes.push_back({"rows", {}, "rows of the weight"});
  return {.name = "embed_sum_backward",
          .doc =
              "(index [..,words], dy [..,columns]) -> dweight [rows,columns]: each row of dy added to the rows of its "
              "words.",
          .attributes = std::move(attributes),
          .infer = InferEmbedSumBackward,
          .reference = EmbedSumReferenceBackward,
          .gradient = EmbedSumGradientBackward,
          .precision = Precision::kKeep32,
          .on_host = on_host::kRare,
          .cases = EmbedSumBackwardCases};
}

}  // namespace moka

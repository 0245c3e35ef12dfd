// Sums of a table's rows by index: y[i,:] = sum over j of l_j * w[index[i,j],:], a sentence as the sum of its words
// ("bag of words"), l = 1 or position weights. One op in place of embed, a product and a sum: rows of all words are
// never in memory, and places without a word cost nothing. Several tables of one shape by the same indices are one node
// (graph/passes/join_tables.cpp): each word is then read once.
#include "layers/ops/recurrent/embed_sum.h"
#include "layers/ops/on_host.h"

#include <limits>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"
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

constexpr size_t kMostEmbedTables = 64;

// The tables, or the gradients of their sums, are alike. Errors: kConfig.
void CheckAlike(std::string_view op, const char* name, std::span<const TensorType> in) {
  CheckInputCount(op, in, 2, 1 + kMostEmbedTables);
  for (size_t i = 1; i < in.size(); ++i) {
    CheckFloat(op, name, in[i]);
    CheckSameDType(op, name, in[1], name, in[i]);
    CheckShape(op, name, in[i].shape, in[1].shape, "as the first");
  }
}

std::vector<TensorType> InferEmbedSum(const Attributes&, std::span<const TensorType> in) {
  CheckAlike("embed_sum", "weight", in);
  if (in[1].shape.rank() != 2) {
    throw Error(ErrorKind::kConfig, StrCat("embed_sum: weight must be [rows,columns], found ", in[1].shape.ToString()));
  }
  const TensorType sums = PlainType(in[1].dtype, EmbedSumShape("embed_sum", in[0].shape, in[1].shape[1]));
  return std::vector<TensorType>(in.size() - 1, sums);
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
  for (size_t table = 0; table < out.size(); ++table) {
    const std::vector<double>& weight = in[1 + table].values;
    std::vector<double>& y = out[table].values;
    y.assign(y.size(), 0.0);
    VisitWords(attributes, in[0], rows, columns, [&](int64_t i, int64_t row, const PositionWeights<double>& l) {
      for (int64_t k = 0; k < columns; ++k) {
        const double value =
            row < 0 ? std::numeric_limits<double>::quiet_NaN() : weight[static_cast<size_t>(row * columns + k)];
        y[static_cast<size_t>(i * columns + k)] += (l.first + l.slope * static_cast<double>(k + 1)) * value;
      }
    });
  }
}

// The gradients of those tables that want one and whose sums have one.
void EmbedSumGradient(GradientContext& c) {
  std::vector<ValueId> inputs{c.x(0)};
  std::vector<int> tables;
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.wants(i) || c.dy(i - 1) == kNoId) continue;
    inputs.push_back(c.dy(i - 1));
    tables.push_back(i);
  }
  if (tables.empty()) return;
  Attributes attributes = c.attributes();
  attributes.Set("rows", c.b().shape(c.x(1))[0]);
  const std::vector<ValueId> d = c.b().Add("embed_sum_backward", inputs, attributes);
  for (size_t i = 0; i < tables.size(); ++i) c.SetDx(tables[i], d[i]);
}

std::vector<TensorType> InferEmbedSumBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckAlike("embed_sum_backward", "dy", in);
  const Shape& dy = in[1].shape;
  const int64_t rows = attributes.Int("rows");
  if (rows < 0) throw Error(ErrorKind::kConfig, StrCat("embed_sum_backward: rows is ", rows));
  if (dy.rank() < 1) throw Error(ErrorKind::kConfig, "embed_sum_backward: dy [] has no columns");
  const int64_t columns = dy[dy.rank() - 1];
  CheckShape("embed_sum_backward", "dy", dy, EmbedSumShape("embed_sum_backward", in[0].shape, columns),
             "a row for each sentence");
  return std::vector<TensorType>(in.size() - 1, PlainType(in[1].dtype, Shape{rows, columns}));
}

void EmbedSumReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = out[0].type.shape[0];
  const int64_t columns = out[0].type.shape[1];
  for (size_t table = 0; table < out.size(); ++table) {
    const std::vector<double>& dy = in[1 + table].values;
    std::vector<double>& dw = out[table].values;
    dw.assign(dw.size(), 0.0);
    VisitWords(attributes, in[0], rows, columns, [&](int64_t i, int64_t row, const PositionWeights<double>& l) {
      for (int64_t k = 0; row >= 0 && k < columns; ++k) {
        dw[static_cast<size_t>(row * columns + k)] +=
            (l.first + l.slope * static_cast<double>(k + 1)) * dy[static_cast<size_t>(i * columns + k)];
      }
    });
  }
}

// dw is linear in dy: the same words are read back.
void EmbedSumGradientBackward(GradientContext& c) {
  const Attributes attributes = Selected(c.attributes(), {"padding", "position"});
  for (int i = 1; i < c.input_count(); ++i) {
    if (c.wants(i) && c.dy(i - 1) != kNoId) c.SetDx(i, c.b().Add1("embed_sum", {c.x(0), c.dy(i - 1)}, attributes));
  }
}

std::vector<OpCase> MakeEmbedSumCases(bool backward) {
  struct Example {
    const char* name;
    Shape index;
    int64_t rows, columns, padding;
    bool position;
    size_t tables = 1;
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
      {"two_tables", {2, 3, 6}, 4, 20, 0, true, 2},
      {"four_tables", {41, 12}, 30, 21, 0, true, 4},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    const Shape sums = e.index.With(e.index.rank() - 1, e.columns);
    OpCase c{.name = e.name,
             .inputs = {{DType::kFloat32, e.index, {}}},
             .attributes = {{"padding", e.padding}, {"position", e.position}},
             .ranges = {{0, 0, static_cast<double>(e.rows - 1)}}};
    c.inputs.insert(c.inputs.end(), e.tables,
                    TensorType{DType::kFloat32, backward ? sums : Shape{e.rows, e.columns}, {}});
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
              "(index [..,words], weight [rows,columns]..) -> y [..,columns] of each weight: the sum of its rows that "
              "the indices along the last axis name.",
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
  return {
      .name = "embed_sum_backward",
      .doc =
          "(index [..,words], dy [..,columns]..) -> dweight [rows,columns] of each dy: its rows added to the rows of "
          "their words.",
      .attributes = std::move(attributes),
      .infer = InferEmbedSumBackward,
      .reference = EmbedSumReferenceBackward,
      .gradient = EmbedSumGradientBackward,
      .precision = Precision::kKeep32,
      .on_host = on_host::kRare,
      .cases = EmbedSumBackwardCases};
}

}  // namespace moka

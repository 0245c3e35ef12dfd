// A table after an update that changes only rows with a gradient: for every row that an index names, e(w, dw, scalars),
// where dw is the sum of the rows of dy whose index names it; the other rows stay. What the pass "sparse_updates" makes
// of embed_backward and the update that reads it.
#include <set>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/broadcast.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

constexpr size_t kTable = 2;  // index and dy come before it

// Returns the operands that the expression reads: the table, its gradient, the scalars.
template <class T>
std::vector<T> Operands(std::span<const T> in) {
  std::vector<T> operands{in[kTable], in[kTable]};
  operands.insert(operands.end(), in.begin() + kTable + 1, in.end());
  return operands;
}

std::vector<TensorType> InferEmbedUpdate(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("embed_update", in, kTable + 1, 32);
  CheckFloat("embed_update", "w", in[kTable]);
  CheckSameDType("embed_update", "w", in[kTable], "dy", in[1]);
  const Shape& w = in[kTable].shape;
  if (w.rank() != 2) {
    throw Error(ErrorKind::kConfig, StrCat("embed_update: w must be [rows,columns], found ", w.ToString()));
  }
  Ints dims = DimsOf(in[0].shape);
  dims.push_back(w[1]);
  CheckShape("embed_update", "dy", in[1].shape, Shape(std::span<const int64_t>(dims)), "a row of w for each index");
  for (size_t i = kTable + 1; i < in.size(); ++i) {
    CheckShape("embed_update", StrCat("input ", i), in[i].shape, Shape{}, "a scalar of the update");
  }
  const Expression expression = Expression::Parse(attributes.String("expr"));
  CheckExpressionInputs("embed_update", expression, Operands(in));
  return {PlainType(in[kTable].dtype, w)};
}

void EmbedUpdateReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = in[kTable].type.shape[0];
  const int64_t columns = in[kTable].type.shape[1];
  std::vector<double> dw(in[kTable].values.size());
  std::set<int64_t> named;
  for (int64_t i = 0; i < in[0].type.shape.Count(); ++i) {
    const int64_t row = ReadLabel(false, 0, in[0].values[static_cast<size_t>(i)], rows);
    if (row < 0) continue;
    named.insert(row);
    for (int64_t j = 0; j < columns; ++j) {
      dw[static_cast<size_t>(row * columns + j)] += in[1].values[static_cast<size_t>(i * columns + j)];
    }
  }
  const Expression expression = Expression::Parse(attributes.String("expr"));
  std::vector<RefTensor> operands = Operands(in);
  operands[1].values = dw;
  out[0].values = in[kTable].values;
  EvaluateEverywhere(expression, in[kTable].type.shape, operands, [&](int64_t i, std::span<const double> results) {
    if (named.contains(i / columns)) out[0].values[static_cast<size_t>(i)] = results[0];
  });
}

std::vector<OpCase> EmbedUpdateCases() {
  struct Example {
    const char* name;
    Shape index;
    int64_t rows, columns;
    const char* update;
    int scalars;
  };
  const Example examples[] = {
      {"sgd", {4, 3}, 7, 5, "x0-x2*x1", 1},
      {"scaled", {9}, 4, 16, "x0-x2*0.5*(x1*0.25)", 1},
      {"guarded", {2, 5}, 6, 20, "select(le(abs(x3),3e38),x0-x2*x1,x0)", 2},
      {"all_kept", {6}, 9, 8, "select(gt(x2,3),x0-x1,x0)", 1},
      {"two_rows", {3}, 2, 4, "x0-x1", 0},
      {"two_columns", {5}, 6, 2, "x0-x2*x1", 1},
      {"scalar", {}, 3, 4, "x0-x2*x1", 1},
      {"wide", {3, 2}, 5, 1100, "x0-x2*x1", 1},
      {"many_words", {40, 30}, 50, 9, "x0-x2*x1", 1},
      {"few_of_many", {5}, 200, 3, "x0-x2*x1", 1},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    Ints dims = DimsOf(e.index);
    dims.push_back(e.columns);
    OpCase c{.name = e.name,
             .inputs = {{DType::kFloat32, e.index, {}},
                        {DType::kFloat32, Shape(std::span<const int64_t>(dims)), {}},
                        {DType::kFloat32, Shape{e.rows, e.columns}, {}}},
             .attributes = {{"expr", std::string(e.update)}},
             .ranges = {{0, 0, static_cast<double>(e.rows - 1)}}};
    for (int i = 0; i < e.scalars; ++i) c.inputs.push_back({DType::kFloat32, Shape{}, {}});
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

OpDef EmbedUpdateOp() {
  return {.name = "embed_update",
          .doc =
              "(index [..], dy [..,columns], w [rows,columns], scalars..) -> w with the rows that an index names "
              "updated: expr over x0 = w, x1 = the sum of the row's dy, x2.. = the scalars.",
          .attributes = {{"expr", {}, "a row's new value (graph/expression.h)"}},
          .infer = InferEmbedUpdate,
          .reference = EmbedUpdateReference,
          .may_overwrite = [](const Attributes&, int input, int) { return input == int{kTable}; },
          .precision = Precision::kKeep32,
          .on_host = "it updates single rows by an expression of its own",
          .cases = EmbedUpdateCases};
}

}  // namespace moka

// All-to-all between what ranks have of a matrix: all rows of their columns, and all columns of their rows. A rank's
// part of the columns: PartBegin (layers/ops/ranks/rank_parts.h).
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {
namespace {

constexpr bool kToRows = true;

template <bool kIsToRows>
constexpr const char* ExchangeColumnsName() {
  return kIsToRows ? "exchange_columns" : "exchange_rows";
}

template <bool kIsToRows>
std::vector<TensorType> InferExchangeColumns(const Attributes& attributes, std::span<const TensorType> in) {
  const char* name = ExchangeColumnsName<kIsToRows>();
  CheckInputCount(name, in, 1, 1);
  CheckFloat(name, "x", in[0]);
  const auto [rank, ranks] = CheckRank(name, attributes);
  const int64_t columns = attributes.Int("columns");
  const int64_t own = PartBegin(columns, ranks, rank + 1) - PartBegin(columns, ranks, rank);
  const Shape& x = in[0].shape;
  const int64_t wanted = kIsToRows ? own : columns;
  if (columns < ranks || x.rank() != 2 || x[1] != wanted || (kIsToRows && x[0] % ranks != 0)) {
    throw Error(ErrorKind::kConfig,
                StrCat(name, ": of ", columns, " columns rank ", rank, " of ", ranks, " has ", own, ", so x must be [",
                       kIsToRows ? StrCat("n*", ranks) : std::string("n"), ",", wanted, "], found ", x.ToString()));
  }
  const Shape y = kIsToRows ? Shape{x[0] / ranks, columns} : Shape{x[0] * ranks, own};
  return {PlainType(in[0].dtype, y)};
}

// This rank's rows of its columns alone: the others' are zeros.
template <bool kIsToRows>
void ExchangeColumnsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t ranks = attributes.Int("ranks");
  const int64_t rank = attributes.Int("rank");
  const int64_t columns = attributes.Int("columns");
  const int64_t first = PartBegin(columns, ranks, rank);
  const int64_t own = PartBegin(columns, ranks, rank + 1) - first;
  const int64_t n = kIsToRows ? out[0].type.shape[0] : in[0].type.shape[0];
  std::ranges::fill(out[0].values, 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < own; ++k) {
      const auto in_columns = static_cast<size_t>((rank * n + i) * own + k);
      const auto in_rows = static_cast<size_t>(i * columns + first + k);
      out[0].values[kIsToRows ? in_rows : in_columns] = in[0].values[kIsToRows ? in_columns : in_rows];
    }
  }
}

template <bool kIsToRows>
void ExchangeColumnsGradient(GradientContext& c) {
  Attributes attributes = c.attributes();
  attributes.Set("key", attributes.Int("key") + kBackwardKey);
  c.SetDx(0, c.b().Add1(ExchangeColumnsName<!kIsToRows>(), {c.dy(0)}, attributes));
}

template <bool kIsToRows>
std::vector<OpCase> ExchangeColumnsCases() {
  const auto of = [](int64_t rank, int64_t ranks) {
    return Attributes{{"key", int64_t{4}}, {"rank", rank}, {"ranks", ranks}, {"columns", int64_t{7}}};
  };
  const TensorType columns_of_two = kIsToRows ? Float32({6, 2}) : Float32({2, 7});
  const TensorType columns_of_three = kIsToRows ? Float32({6, 3}) : Float32({2, 7});
  return {{"one_rank", {Float32({6, 7})}, of(0, 1)},
          {"first_of_three", {columns_of_three}, of(0, 3)},
          {"last_of_three", {columns_of_two}, of(2, 3)}};
}

template <bool kIsToRows>
OpDef ExchangeColumnsRow(std::string doc) {
  std::vector<AttributeSpec> attributes = RankAttributes();
  attributes.push_back({"columns", {}, "columns of the whole matrix"});
  return {.name = ExchangeColumnsName<kIsToRows>(),
          .doc = std::move(doc),
          .attributes = std::move(attributes),
          .infer = InferExchangeColumns<kIsToRows>,
          .reference = ExchangeColumnsReference<kIsToRows>,
          .gradient = ExchangeColumnsGradient<kIsToRows>,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSplits,
          .cases = ExchangeColumnsCases<kIsToRows>};
}

}  // namespace

OpDef ExchangeColumnsOp() {
  return ExchangeColumnsRow<kToRows>(
      "x [n*ranks,k] -> y [n,columns]: x are the rows of all ranks of this rank's columns, y all columns of its rows; "
      "zeros for those of others where there is no exchange.");
}

OpDef ExchangeRowsOp() {
  return ExchangeColumnsRow<!kToRows>(
      "x [n,columns] -> y [n*ranks,k]: x are all columns of this rank's rows, y the rows of all ranks of its columns; "
      "zeros for those of others where there is no exchange.");
}

}  // namespace moka

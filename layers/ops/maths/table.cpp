// Numbers written down in the graph: a matrix that a layer reads from a file.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

std::vector<TensorType> InferTable(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("table", in, 0, 0);
  const Shape y = ShapeAttribute("table", attributes, "shape");
  const auto found = static_cast<int64_t>(attributes.Get<Doubles>("values").size());
  if (found != y.Count()) {
    throw Error(ErrorKind::kConfig,
                StrCat("table: shape ", y.ToString(), " needs ", y.Count(), " values, found ", found));
  }
  return {PlainType(DType::kFloat32, y)};
}

void TableReference(const Attributes& attributes, std::span<const RefTensor>, std::span<RefTensor> out) {
  out[0].values = attributes.Get<Doubles>("values");
}

std::vector<OpCase> TableCases() {
  return {{"matrix", {}, {{"shape", Ints{2, 3}}, {"values", Doubles{1, -2, 0.5, 0, 4, 8}}}}};
}

}  // namespace

OpDef TableOp() {
  return {.name = "table",
          .doc = "-> y: the values given, float32.",
          .attributes = {ShapeSpec("shape", "the shape of y"), {"values", {}, "its values, row-major"}},
          .infer = InferTable,
          .reference = TableReference,
          .precision = Precision::kKeep32,
          .cases = TableCases};
}

}  // namespace moka

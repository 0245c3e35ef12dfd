// A tensor with one value everywhere.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferFull(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("full", in, 0, 0);
  return {PlainType(DTypeNamed("full", attributes.String("dtype")), ShapeAttribute("full", attributes, "shape"))};
}

void FullReference(const Attributes& attributes, std::span<const RefTensor>, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, attributes.Float("value"));
}

std::vector<OpCase> FullCases() {
  const auto make = [](const char* name, Ints shape, double value, const char* dtype) {
    return OpCase{.name = name,
                  .inputs = {},
                  .attributes = {{"shape", std::move(shape)}, {"value", value}, {"dtype", std::string(dtype)}},
                  .ranges = {}};
  };
  return {make("matrix", {3, 5}, 0.25, "float32"), make("scalar", {}, -7, "float32"),
          make("empty", {0, 4}, 1, "float32"),     make("float64", {2, 2}, 0.1, "float64"),
          make("int64", {4}, 9, "int64"),          make("blocked", {2, 17, 3, 3}, 1, "float32")};
}

}  // namespace

OpDef FullOp() {
  return {.name = "full",
          .doc = "-> y: one value everywhere.",
          .attributes = {{"shape", {}, "the shape of y"},
                         {"value", {}, "the value of every element"},
                         {"dtype", std::string("float32"), "the element type of y"}},
          .infer = InferFull,
          .reference = FullReference,
          .cases = FullCases};
}

}  // namespace moka

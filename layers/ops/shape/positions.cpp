// The index along an axis: y[.., i, ..] = i.
#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferPositions(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("positions", in, 0, 0);
  const Shape shape = ShapeAttribute("positions", attributes, "shape");
  CanonicalAxis(attributes.Int("axis"), shape, "positions: axis");
  return {PlainType(DType::kFloat32, shape)};
}

void PositionsReference(const Attributes& attributes, std::span<const RefTensor>, std::span<RefTensor> out) {
  const Shape& shape = out[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  for (size_t i = 0; i < out[0].values.size(); ++i) {
    out[0].values[i] = static_cast<double>(static_cast<int64_t>(i) / s.inner % s.size);
  }
}

std::vector<OpCase> PositionsCases() {
  const auto make = [](const char* name, Ints shape, int64_t axis) {
    return OpCase{
        .name = name, .inputs = {}, .attributes = {{"shape", std::move(shape)}, {"axis", axis}}, .ranges = {}};
  };
  return {make("time", {5, 3}, 0), make("last", {2, 3, 7}, -1), make("middle", {2, 4, 3}, 1), make("one", {1}, 0)};
}

}  // namespace

OpDef PositionsOp() {
  return {.name = "positions",
          .doc = "-> y: the index along an axis.",
          .attributes = {{"shape", {}, "the shape of y"}, {"axis", int64_t{0}, "the axis that is counted along"}},
          .infer = InferPositions,
          .reference = PositionsReference,
          .precision = Precision::kKeep32,
          .cases = PositionsCases};
}

}  // namespace moka

// x turned round along an axis: what leaves at the end comes in at the beginning.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferRoll(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roll", in, 1, 1);
  CanonicalAxis(attributes.Int("axis"), in[0].shape, "roll: axis");
  return {PlainType(in[0].dtype, in[0].shape)};
}

// y[(i + shift) mod size] = x[i] along the axis.
void RollReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), shape, "axis");
  const int64_t size = shape[axis];
  const int64_t shift = (attributes.Int("shift") % size + size) % size;
  VisitElements(shape, [&](const Index& x, int64_t offset) {
    Index y = x;
    y[static_cast<size_t>(axis)] = (x[static_cast<size_t>(axis)] + shift) % size;
    out[0].values[static_cast<size_t>(RowMajor(shape, y))] = in[0].values[static_cast<size_t>(offset)];
  });
}

void RollGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const Attributes back = {{"axis", c.attributes().Int("axis")}, {"shift", -c.attributes().Int("shift")}};
  c.SetDx(0, c.b().Add1("roll", {c.dy(0)}, back));
}

std::vector<OpCase> RollCases() {
  const auto by = [](int64_t axis, int64_t shift) { return Attributes{{"axis", axis}, {"shift", shift}}; };
  return {{"last", {Float32({2, 3, 5})}, by(-1, 2)},
          {"first_back", {Float32({7, 2})}, by(0, -3)},
          {"whole_turn", {Float32({4, 3})}, by(1, 6)}};
}

}  // namespace

OpDef RollOp() {
  return {.name = "roll",
          .doc = "x -> y: x turned round along an axis.",
          .attributes = {{"axis", {}, "the axis; negative counts from the end"},
                         {"shift", {}, "how far an element moves towards higher indices"}},
          .infer = InferRoll,
          .reference = RollReference,
          .gradient = RollGradient,
          .on_host = on_host::kRare,
          .cases = RollCases};
}

}  // namespace moka

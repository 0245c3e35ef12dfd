// Axis i of y is axis perm[i] of x.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferTranspose(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("transpose", in, 1, 1);
  const Shape& x = in[0].shape;
  const Ints& perm = attributes.Get<Ints>("perm");
  std::vector<bool> seen(static_cast<size_t>(x.rank()), false);
  bool valid = perm.size() == seen.size();
  for (size_t i = 0; valid && i < perm.size(); ++i) {
    valid = perm[i] >= 0 && perm[i] < x.rank() && !seen[static_cast<size_t>(perm[i])];
    if (valid) seen[static_cast<size_t>(perm[i])] = true;
  }
  if (!valid) {
    throw Error(ErrorKind::kConfig, StrCat("transpose: perm ", ToText(AttributeValue(perm)),
                                           " must name each axis of x ", x.ToString(), " once"));
  }
  Shape y = x;
  for (int i = 0; i < x.rank(); ++i) y = y.With(i, x[static_cast<int>(perm[static_cast<size_t>(i)])]);
  return {PlainType(in[0].dtype, y)};
}

void TransposeReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Ints& perm = attributes.Get<Ints>("perm");
  VisitElements(out[0].type.shape, [&](const Index& y, int64_t offset) {
    Index x{};
    for (size_t i = 0; i < perm.size(); ++i) x[static_cast<size_t>(perm[i])] = y[i];
    out[0].values[static_cast<size_t>(offset)] = in[0].values[static_cast<size_t>(RowMajor(in[0].type.shape, x))];
  });
}

void TransposeGradient(GradientContext& c) {
  const Ints& perm = c.attributes().Get<Ints>("perm");
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  if (c.wants(0)) c.SetDx(0, c.b().Add1("transpose", {c.dy(0)}, {{"perm", inverse}}));
}

std::vector<OpCase> TransposeCases() {
  const auto by = [](Ints perm) { return Attributes{{"perm", std::move(perm)}}; };
  return {{"matrix", {Float32({5, 7})}, by({1, 0})},
          {"channels_last", {Float32({2, 3, 4, 5})}, by({0, 2, 3, 1})},
          {"keeps_inner", {Float32({3, 4, 5})}, by({1, 0, 2})},
          {"identity", {Float32({2, 3})}, by({0, 1})},
          {"ones", {Float32({1, 4, 1, 3})}, by({3, 0, 1, 2})}};
}

}  // namespace

OpDef TransposeOp() {
  return {.name = "transpose",
          .doc = "x -> y with permuted axes.",
          .attributes = {{"perm", {}, "axis i of y is axis perm[i] of x"}},
          .infer = InferTranspose,
          .reference = TransposeReference,
          .gradient = TransposeGradient,
          .cases = TransposeCases};
}

}  // namespace moka

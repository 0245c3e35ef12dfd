// The identity, whose gradient gets a term that draws x to zero, as a weight decay of values.
#include "core/text.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/loss/ops.h"

namespace moka {
namespace {

std::vector<TensorType> Infer(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("output_decay", in, 1, 1);
  CheckFloat("output_decay", "x", in[0]);
  return {PlainType(in[0].dtype, in[0].shape)};
}

void Reference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void Gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::string decay = StrCat(c.attributes().Float("decay"));
  const std::string term = c.attributes().Bool("l1") ? "sign(x1)" : "x1";
  c.SetDx(0, c.b().Pointwise(StrCat("x0+(", decay, ")*", term), {c.dy(0), c.x(0)}));
}

// Too small a decay for differences to see: the term is no derivative.
std::vector<OpCase> Cases() {
  return {{"l1", {Float32({2, 3})}, {{"decay", 1e-12}, {"l1", true}}},
          {"l2", {Float32({2, 3})}, {{"decay", 1e-12}, {"l1", false}}}};
}

}  // namespace

OpDef OutputDecayOp() {
  return {.name = "output_decay",
          .doc = "x -> y equal to x; x's gradient is y's plus decay * sign(x) (l1) or decay * x.",
          .attributes = {{"decay", {}, "factor of the term"}, {"l1", false, "whether the term is the sign's"}},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .is_alias = true,
          .cases = Cases};
}

}  // namespace moka

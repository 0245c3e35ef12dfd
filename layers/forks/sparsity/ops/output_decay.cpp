// The identity, whose gradient gets a term that draws x to zero, as a weight decay of values.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferOutputDecay(const Attributes&, std::span<const TensorType> in) {
  CheckScaledIdentity("output_decay", in);
  return {PlainType(in[0].dtype, in[0].shape)};
}

void OutputDecayReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void OutputDecayGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  std::vector<ValueId> inputs = {c.dy(0), c.x(0)};
  const std::string decay = ScaledText(c, c.attributes().Float("decay"), inputs);
  const std::string term = c.attributes().Bool("l1") ? "sign(x1)" : "x1";
  c.SetDx(0, c.b().Pointwise(StrCat("x0+", decay, "*", term), inputs));
}

// Too small a decay for differences to see: the term is no derivative.
std::vector<OpCase> OutputDecayCases() {
  return {{"l1", {Float32({2, 3})}, {{"decay", 1e-12}, {"l1", true}}},
          {"l2", {Float32({2, 3})}, {{"decay", 1e-12}, {"l1", false}}},
          {"of_a_scaled_loss", {Float32({2, 3}), Float32({})}, {{"decay", 1e-12}, {"l1", false}}}};
}

}  // namespace

OpDef OutputDecayOp() {
  return {
      .name = "output_decay",
      .doc =
          "x -> y equal to x; x's gradient is y's plus decay * sign(x) (l1) or decay * x, times a scalar s where it is "
          "the gradient of a loss scaled by s.",
      .attributes = {{"decay", {}, "factor of the term"}, {"l1", false, "whether the term is the sign's"}},
      .infer = InferOutputDecay,
      .reference = OutputDecayReference,
      .gradient = OutputDecayGradient,
      .is_alias = true,
      .precision = Precision::kKeep32,
      .takes_half = IsScaledIdentity,
      .cases = OutputDecayCases};
}

}  // namespace moka

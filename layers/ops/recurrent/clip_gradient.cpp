// The identity, whose gradient is cut to [-threshold, threshold]: what a recurrent layer puts before its gates so that
// errors do not explode on their way back in time (Graves, arXiv 1308.0850, section 2).
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"

namespace moka {
namespace {

std::vector<TensorType> InferClipGradient(const Attributes& attributes, std::span<const TensorType> in) {
  CheckScaledIdentity("clip_gradient", in);
  const double threshold = attributes.Float("threshold");
  if (!(threshold > 0)) {
    throw Error(ErrorKind::kConfig, StrCat("clip_gradient: threshold must be above 0, found ", threshold));
  }
  return {PlainType(in[0].dtype, in[0].shape)};
}

void ClipGradientReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void GradientOfClipGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  std::vector<ValueId> inputs = {c.dy(0)};
  const std::string threshold = ScaledText(c, c.attributes().Float("threshold"), inputs);
  c.SetDx(0, c.b().Pointwise(StrCat("max(min(x0,", threshold, "),-", threshold, ")"), inputs));
}

// The catalogue's weights lie in [-1, 1], so that differences never meet this threshold.
std::vector<OpCase> ClipGradientCases() {
  return {{"any", {Float32({2, 3})}, {{"threshold", 2.0}}},
          {.name = "of_a_scaled_loss",
           .inputs = {Float32({2, 3}), Float32({})},
           .attributes = {{"threshold", 2.0}},
           .ranges = {{1, 1, 8}}}};
}

}  // namespace

OpDef ClipGradientOp() {
  return {.name = "clip_gradient",
          .doc =
              "x -> y equal to x; what y's gradient gives to x is cut to [-threshold, threshold], times a scalar s "
              "where it "
              "is the gradient of a loss scaled by s.",
          .attributes = {{"threshold", {}, "the largest magnitude let through"}},
          .infer = InferClipGradient,
          .reference = ClipGradientReference,
          .gradient = GradientOfClipGradient,
          .is_alias = true,
          .repeats = AlwaysRepeats,
          .precision = Precision::kKeep32,
          .takes_half = IsScaledIdentity,
          .cases = ClipGradientCases};
}

}  // namespace moka

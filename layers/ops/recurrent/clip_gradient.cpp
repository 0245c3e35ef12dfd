// The identity, whose gradient is cut to [-threshold, threshold]: what a recurrent layer puts before its gates so that
// errors do not explode on their way back in time (Graves, arXiv 1308.0850, section 2).
#include "core/text.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/recurrent/ops.h"

namespace moka {
namespace {

std::vector<TensorType> Infer(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("clip_gradient", in, 1, 1);
  CheckFloat("clip_gradient", "x", in[0]);
  const double threshold = attributes.Float("threshold");
  if (!(threshold > 0)) {
    throw Error(ErrorKind::kConfig, StrCat("clip_gradient: threshold must be above 0, found ", threshold));
  }
  return {PlainType(in[0].dtype, in[0].shape)};
}

void Reference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void Gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::string threshold = StrCat(c.attributes().Float("threshold"));
  c.SetDx(0, c.b().Pointwise(StrCat("max(min(x0,", threshold, "),-", threshold, ")"), {c.dy(0)}));
}

// The catalogue's weights lie in [-1, 1], so that differences never meet this threshold.
std::vector<OpCase> Cases() { return {{"any", {Float32({2, 3})}, {{"threshold", 2.0}}}}; }

}  // namespace

OpDef ClipGradientOp() {
  return {.name = "clip_gradient",
          .doc = "x -> y equal to x; what y's gradient gives to x is cut to [-threshold, threshold].",
          .attributes = {{"threshold", {}, "the largest magnitude let through"}},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .is_alias = true,
          .cases = Cases};
}

}  // namespace moka

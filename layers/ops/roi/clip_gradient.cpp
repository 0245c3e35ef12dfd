// The identity, whose gradient is held within +-limit (MNC's use_clip).
#include "layers/ops/roi/ops.h"
#include "layers/ops/roi/rois.h"

namespace moka {
namespace {

std::vector<TensorType> Infer(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("clip_gradient", in, 1, 1);
  CheckFloat("clip_gradient", "x", in[0]);
  if (!(attributes.Float("limit") > 0)) {
    throw Error(ErrorKind::kConfig,
                StrCat("clip_gradient: limit must be greater than 0, found ", attributes.Float("limit")));
  }
  return {PlainType(in[0].dtype, in[0].shape)};
}

void Reference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void Gradient(GradientContext& c) {
  const std::string limit = ToText(c.attributes().Float("limit"));
  c.SetDx(0, c.b().Pointwise(StrCat("max(min(x0,", limit, "),-", limit, ")"), {c.dy(0)}));
}

std::vector<OpCase> Cases() { return {{"wide", {Float32({3, 5})}, {{"limit", 10.0}}}}; }

}  // namespace

OpDef ClipGradientOp() {
  return {.name = "clip_gradient",
          .doc = "x -> x; dx = dy held within +-limit.",
          .attributes = {{"limit", {}, "the largest magnitude of a gradient's element"}},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .may_overwrite = [](const Attributes&, int, int) { return true; },
          .cases = Cases};
}

}  // namespace moka

// Max-unpooling (Zeiler & Fergus 2014; SegNet's Upsample, DeconvNet's Unpooling): each x goes to the place its mask
// names in a plane of zeros, in order, so a later one overwrites an earlier one. As in both forks the gradient is what
// lies at that place, for overwritten ones as well. Masks are what MAX pooling's second top holds: h*W + w.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"

namespace moka {
namespace {

void CheckPlanes(std::string_view op, const TensorType& x, const TensorType& mask) {
  CheckFloat(op, "x", x);
  CheckFloat(op, "mask", mask);
  if (x.shape.rank() != 4 || mask.shape.rank() != 4) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": both inputs must be [N,C,H,W], found ", x.shape.ToString(), " and ",
                                           mask.shape.ToString()));
  }
}

std::vector<TensorType> InferUnpoolMax(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("unpool_max", in, 2, 2);
  CheckPlanes("unpool_max", in[0], in[1]);
  CheckShape("unpool_max", "mask", in[1].shape, in[0].shape, "x's shape");
  const Shape size = ShapeAttribute("unpool_max", attributes, "size");
  if (size.rank() != 2 || size[0] < 1 || size[1] < 1) {
    throw Error(ErrorKind::kConfig,
                StrCat("unpool_max: size must be two numbers of at least 1, found ", size.ToString()));
  }
  return {PlainType(in[0].dtype, in[0].shape.With(2, size[0]).With(3, size[1]))};
}

std::vector<TensorType> InferUnpoolMaxBackward(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("unpool_max_backward", in, 2, 2);
  CheckPlanes("unpool_max_backward", in[0], in[1]);
  const Shape& mask = in[1].shape;
  const Shape& dy = in[0].shape;
  CheckShape("unpool_max_backward", "dy", dy.With(2, mask[2]).With(3, mask[3]), mask,
             "the mask's shape but the planes");
  return {PlainType(in[0].dtype, mask)};
}

// Calls f(offset in the small planes, offset in the large ones) for each mask value that names a place.
template <class F>
void VisitUnpoolMaxPlaces(const RefTensor& mask, const Shape& large, F&& f) {
  const int64_t small_plane = mask.type.shape[2] * mask.type.shape[3];
  const int64_t plane = large[2] * large[3];
  for (size_t i = 0; i < mask.values.size(); ++i) {
    const double place = mask.values[i];
    if (!(place >= 0 && place < static_cast<double>(plane))) continue;
    const int64_t channel = static_cast<int64_t>(i) / small_plane;
    f(i, static_cast<size_t>(channel * plane + static_cast<int64_t>(place)));
  }
}

void UnpoolMaxReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitUnpoolMaxPlaces(in[1], out[0].type.shape,
                       [&](size_t i, size_t place) { out[0].values[place] = in[0].values[i]; });
}

void UnpoolMaxReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitUnpoolMaxPlaces(in[1], in[0].type.shape,
                       [&](size_t i, size_t place) { out[0].values[i] = in[0].values[place]; });
}

void UnpoolMaxGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().Add1("unpool_max_backward", {c.dy(0), c.x(1)}));
}

// One value a plane, so that none is overwritten and differences agree with the gradient.
std::vector<OpCase> UnpoolMaxCases() {
  const auto make = [](const char* name, int64_t n, int64_t c, int64_t h, int64_t w) {
    return OpCase{.name = name,
                  .inputs = {Float32({n, c, 1, 1}), Float32({n, c, 1, 1})},
                  .attributes = {{"size", Ints{h, w}}},
                  .ranges = {{1, 0, static_cast<double>(h * w - 1)}}};
  };
  return {make("four_by_four", 2, 17, 4, 4), make("row", 3, 2, 1, 5), make("one", 1, 1, 1, 1)};
}

std::vector<OpCase> UnpoolMaxBackwardCases() {
  return {{.name = "halves",
           .inputs = {Float32({2, 3, 4, 6}), Float32({2, 3, 2, 3})},
           .attributes = {},
           .ranges = {{1, 0, 23}}},
          {.name = "odd",
           .inputs = {Float32({1, 17, 5, 3}), Float32({1, 17, 3, 2})},
           .attributes = {},
           .ranges = {{1, 0, 14}}}};
}

}  // namespace

OpDef UnpoolMaxOp() {
  return {.name = "unpool_max",
          .doc = "(x, mask) [N,C,H,W] -> y [N,C,h,w]: zeros with x at the places the mask names (h*W + w).",
          .attributes = {{"size", {}, "height and width of the output's planes"}},
          .infer = InferUnpoolMax,
          .reference = UnpoolMaxReference,
          .gradient = UnpoolMaxGradient,
          .precision = Precision::kKeep32,
          .cases = UnpoolMaxCases};
}

OpDef UnpoolMaxBackwardOp() {
  return {.name = "unpool_max_backward",
          .doc = "(dy [N,C,h,w], mask [N,C,H,W]) -> dx like mask: dy at the places the mask names.",
          .attributes = {},
          .infer = InferUnpoolMaxBackward,
          .reference = UnpoolMaxReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = UnpoolMaxBackwardCases};
}

}  // namespace moka

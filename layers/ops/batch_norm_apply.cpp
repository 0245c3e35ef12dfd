// batch_norm's result once more from the statistics it gave: y = (x-mean)/sqrt(variance+eps) * scale + shift,
// optionally a ReLU, bit for bit. For the backward pass, which then need not keep y.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/ops.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kName = "batch_norm_apply";

std::vector<TensorType> Infer(const Attributes&, std::span<const TensorType> in) {
  if (in.size() != 3) CheckInputCount(kName, in, 5, 5);
  CheckFloat(kName, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() < 2) throw Error(ErrorKind::kConfig, StrCat(kName, ": x must be [N,C,..], found ", x.ToString()));
  constexpr const char* kNames[] = {"x", "mean", "variance", "scale", "shift"};
  for (size_t i = 1; i < in.size(); ++i) {
    CheckShape(kName, kNames[i], in[i].shape, Shape{x[1]}, "one value a channel");
  }
  return {PlainType(in[0].dtype, x)};
}

void Reference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  VisitElements(in[0].type.shape, [&](const Index& index, int64_t offset) {
    const auto i = static_cast<size_t>(offset);
    const auto c = static_cast<size_t>(index[1]);
    double y = (in[0].values[i] - in[1].values[c]) / std::sqrt(in[2].values[c] + attributes.Float("eps"));
    if (in.size() == 5) y = y * in[3].values[c] + in[4].values[c];
    out[0].values[i] = attributes.Bool("relu") ? std::max(y, 0.0) : y;
  });
}

std::vector<OpCase> Cases() {
  const auto make = [](const char* name, Shape x, bool affine, bool relu) {
    const TensorType channel = Float32({x[1]});
    OpCase c{.name = name,
             .inputs = {{DType::kFloat32, x, {}}, channel, channel},
             .attributes = {{"eps", 1e-5}, {"relu", relu}},
             .ranges = {{2, 0.5, 1.25}}};
    if (affine) c.inputs.insert(c.inputs.end(), 2, channel);
    return c;
  };
  return {make("plain", {3, 4, 5, 5}, false, false), make("relu", {2, 17, 3, 4}, true, true),
          make("two_axes", {9, 6}, true, false)};
}

}  // namespace

OpDef BatchNormApplyOp() {
  return {.name = kName,
          .doc = "(x [N,C,..], mean [C], variance [C][, scale [C], shift [C]]) -> y like x: batch_norm's y again.",
          .attributes = {{"eps", {}, "added to the variance"}, {"relu", false, "whether a ReLU is applied last"}},
          .infer = Infer,
          .reference = Reference,
          .may_overwrite = [](const Attributes&, int, int) { return true; },
          .takes_half = [](const Attributes&, int input) { return input == 0; },
          .cases = Cases};
}

}  // namespace moka

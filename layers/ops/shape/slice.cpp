// x cut along an axis into consecutive parts.
#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferSlice(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("slice", in, 1, 1);
  const Shape& x = in[0].shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), x, "slice: axis");
  const Shape others = x.With(axis, 0);
  std::vector<TensorType> out;
  Size total = 0;
  for (const int64_t size : attributes.Get<Ints>("sizes")) {
    if (size < 0)
      throw Error(ErrorKind::kConfig, StrCat("slice: a part cannot have ", size, " elements along the axis"));
    total += size;
    out.push_back(PlainType(in[0].dtype, others.With(axis, size)));
  }
  if (out.empty() || total != x[axis]) {
    throw Error(ErrorKind::kConfig, StrCat("slice: the parts ", ToText(AttributeValue(attributes.Get<Ints>("sizes"))),
                                           " must add up to dimension ", axis, " of ", x.ToString()));
  }
  return out;
}

void SliceReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), x, "axis");
  int64_t start = 0;
  for (RefTensor& y : out) {
    VisitElements(y.type.shape, [&](Index index, int64_t offset) {
      index[static_cast<size_t>(axis)] += start;
      y.values[static_cast<size_t>(offset)] = in[0].values[static_cast<size_t>(RowMajor(x, index))];
    });
    start += y.type.shape[axis];
  }
}

// Parts that nothing reads give zeros.
void SliceGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.attributes().Get<Ints>("sizes").size(); ++i) {
    const ValueId dy = c.dy(static_cast<int>(i));
    const TensorType y = c.b().type(c.y(static_cast<int>(i)));
    parts.push_back(dy != kNoId ? dy : c.b().Full(y.shape, 0, y.dtype));
  }
  c.SetDx(0, c.b().Add1("concat", parts, {{"axis", c.attributes().Int("axis")}}));
}

std::vector<OpCase> SliceCases() {
  const auto into = [](int64_t axis, Ints sizes) { return Attributes{{"axis", axis}, {"sizes", std::move(sizes)}}; };
  return {
      {"channels", {Float32({2, 8, 4, 5})}, into(1, {3, 1, 4})},
      {"blocked_channels", {Float32({2, 64, 3, 3})}, into(1, {16, 32, 16})},
      {"batch", {Float32({4, 16, 3, 2})}, into(0, {1, 3})},
      {"last_axis", {Float32({3, 6})}, into(-1, {4, 2})},
      {"one_part", {Float32({3, 4})}, into(0, {3})},
      {"an_empty_part", {Float32({3, 4})}, into(1, {0, 4})},
  };
}

}  // namespace

OpDef SliceOp() {
  return {.name = "slice",
          .doc = "x -> y0, y1, ..: consecutive parts along an axis.",
          .attributes = {{"axis", {}, "the axis that is cut; negative counts from the end"},
                         {"sizes", {}, "elements of each part along the axis; they add up to the dimension"}},
          .infer = InferSlice,
          .reference = SliceReference,
          .gradient = SliceGradient,
          .by_image = [](const Attributes& attributes,
                         int rank) { return UnlessAlongImages(attributes, rank, ByImage::kWithWeights); },
          .repeats = AlwaysRepeats,
          .cases = SliceCases};
}

}  // namespace moka

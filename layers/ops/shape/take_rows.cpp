// y[m] = x[index[m]] for whole rows (axis 0); an index outside x gives a row of zeros and takes no gradient.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"
#include "layers/ops/input_shape.h"

namespace moka {
namespace {

void CheckIndex(std::string_view op, const TensorType& index) {
  if (index.shape.rank() == 1) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": index must be [M], found ", index.shape.ToString()));
}

std::vector<TensorType> InferTakeRows(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("take_rows", in, 2, 2);
  CheckFloat("take_rows", "x", in[0]);
  CheckIndex("take_rows", in[1]);
  if (in[0].shape.rank() < 1) throw Error(ErrorKind::kConfig, "take_rows: x must have an axis, found a scalar");
  return {PlainType(in[0].dtype, in[0].shape.With(0, in[1].shape[0]))};
}

// Calls f(offset in x, offset in y) for every element of a row that is there.
template <class F>
void VisitTakeRows(const RefTensor& index, const Shape& x, F&& f) {
  const int64_t length = x.Count(1, x.rank());
  for (size_t m = 0; m < index.values.size(); ++m) {
    const double row = index.values[m];
    if (!(row >= 0 && row < static_cast<double>(x[0]))) continue;
    const size_t from = static_cast<size_t>(row) * static_cast<size_t>(length);
    for (size_t i = 0; i < static_cast<size_t>(length); ++i) f(from + i, m * static_cast<size_t>(length) + i);
  }
}

void TakeRowsReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitTakeRows(in[1], in[0].type.shape, [&](size_t x, size_t y) { out[0].values[y] = in[0].values[x]; });
}

void TakeRowsGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.SetDx(0, c.b().Add1("take_rows_backward", {c.dy(0), c.x(1)}, WithInputShape({}, c.b().shape(c.x(0)))));
}

std::vector<TensorType> InferTakeRowsBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("take_rows_backward", in, 2, 2);
  CheckFloat("take_rows_backward", "dy", in[0]);
  CheckIndex("take_rows_backward", in[1]);
  const Shape x = ShapeAttribute("take_rows_backward", attributes, "input_shape");
  if (x.rank() < 1) throw Error(ErrorKind::kConfig, "take_rows_backward: input_shape must have an axis");
  CheckShape("take_rows_backward", "dy", in[0].shape, x.With(0, in[1].shape[0]), "the rows taken of input_shape");
  return {PlainType(in[0].dtype, x)};
}

void TakeRowsReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitTakeRows(in[1], out[0].type.shape, [&](size_t x, size_t y) { out[0].values[x] += in[0].values[y]; });
}

std::vector<OpCase> MakeTakeRowsCases(bool backward) {
  const TensorType rows{DType::kInt32, Shape{9}, {}};
  std::vector<OpCase> cases = {
      {.name = "rows", .inputs = {Float32({6, 4}), rows}, .attributes = {}, .ranges = {{1, -1, 5}}},
      {.name = "some_outside", .inputs = {Float32({3, 2, 2}), rows}, .attributes = {}, .ranges = {{1, -2, 4}}}};
  for (OpCase& c : cases) {
    if (!backward) continue;
    c.attributes = WithInputShape({}, c.inputs[0].shape);
    c.inputs[0].shape = c.inputs[0].shape.With(0, 9);
  }
  return cases;
}

std::vector<OpCase> TakeRowsCases() { return MakeTakeRowsCases(false); }
std::vector<OpCase> TakeRowsBackwardCases() { return MakeTakeRowsCases(true); }

}  // namespace

OpDef TakeRowsOp() {
  return {.name = "take_rows",
          .doc = "(x [R,..], index [M]) -> y [M,..]: rows of x; an index outside x gives zeros.",
          .attributes = {},
          .infer = InferTakeRows,
          .reference = TakeRowsReference,
          .gradient = TakeRowsGradient,
          .precision = Precision::kKeep32,
          .cases = TakeRowsCases};
}

OpDef TakeRowsBackwardOp() {
  return {.name = "take_rows_backward",
          .doc = "(dy [M,..], index [M]) -> dx of input_shape: each row of dy added to the row it was taken from.",
          .attributes = WithInputShape(std::vector<AttributeSpec>{}),
          .infer = InferTakeRowsBackward,
          .reference = TakeRowsReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = TakeRowsBackwardCases};
}

}  // namespace moka

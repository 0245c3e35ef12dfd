// Picks, of each row's four numbers a class, those of the class that scores best: y[n] = boxes[n, 4c .. 4c+3] with c
// the first largest of scores[n, first_class ..]. The choice has no gradient.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

// The classes. Errors: kConfig unless boxes is [N,4K] and scores [N,K] with K > first_class.
int64_t Classes(std::string_view op, const Attributes& attributes, const Shape& boxes, const Shape& scores) {
  const int64_t n = scores.rank() < 2 ? 0 : scores[0];
  const int64_t k = n == 0 ? 0 : scores.Count(1, scores.rank());
  const int64_t first = attributes.Int("first_class");
  const bool fits = boxes.rank() >= 2 && boxes[0] == n && boxes.Count(1, boxes.rank()) == (Size(k) * 4).value();
  if (fits && first >= 0 && first < k) return k;
  throw Error(ErrorKind::kConfig, StrCat(op, ": scores must be [N,K], boxes [N,4K] and K more than first_class ", first,
                                         ", found ", scores.ToString(), " and ", boxes.ToString()));
}

std::vector<TensorType> InferPickBoxes(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pick_boxes", in, 2, 2);
  CheckFloat("pick_boxes", "boxes", in[0]);
  CheckFloat("pick_boxes", "scores", in[1]);
  (void)Classes("pick_boxes", attributes, in[0].shape, in[1].shape);
  return {PlainType(in[0].dtype, Shape{in[0].shape[0], 4})};
}

// Calls f(offset in boxes, offset in y).
template <class F>
void VisitPicks(const Attributes& attributes, const RefTensor& scores, F&& f) {
  const Shape& shape = scores.type.shape;
  const auto classes = static_cast<size_t>(shape.Count(1, shape.rank()));
  for (size_t n = 0; n < static_cast<size_t>(shape[0]); ++n) {
    const double* row = scores.values.data() + n * classes;
    const double* first = row + attributes.Int("first_class");
    const auto best = static_cast<size_t>(std::max_element(first, row + classes) - row);
    for (size_t i = 0; i < 4; ++i) f((n * classes + best) * 4 + i, n * 4 + i);
  }
}

void PickBoxesReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  VisitPicks(attributes, in[1], [&](size_t box, size_t y) { out[0].values[y] = in[0].values[box]; });
}

void PickBoxesGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.SetDx(0, c.b().Add1("pick_boxes_backward", {c.dy(0), c.x(1)}, WithInputShape(c.attributes(), c.b().shape(c.x(0)))));
}

std::vector<TensorType> InferPickBoxesBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pick_boxes_backward", in, 2, 2);
  CheckFloat("pick_boxes_backward", "dy", in[0]);
  const Shape boxes = ShapeAttribute("pick_boxes_backward", attributes, "input_shape");
  (void)Classes("pick_boxes_backward", attributes, boxes, in[1].shape);
  CheckShape("pick_boxes_backward", "dy", in[0].shape, Shape{boxes[0], 4}, "four numbers a row");
  return {PlainType(in[0].dtype, boxes)};
}

void PickBoxesReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitPicks(attributes, in[1], [&](size_t box, size_t y) { out[0].values[box] = in[0].values[y]; });
}

std::vector<AttributeSpec> PickBoxesSpecs() {
  return {{"first_class", int64_t{0}, "classes before it are never the best"}};
}

std::vector<OpCase> MakePickBoxesCases(bool backward) {
  std::vector<OpCase> cases;
  for (const int64_t first : {0, 1}) {
    OpCase c{.name = StrCat("from_class_", first),
             .inputs = {Float32({5, 12}), Float32({5, 3})},
             .attributes = {{"first_class", first}},
             .min_gap = 1e-3};
    if (backward) {
      c.attributes = WithInputShape(std::move(c.attributes), c.inputs[0].shape);
      c.inputs[0].shape = Shape{5, 4};
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> PickBoxesCases() { return MakePickBoxesCases(false); }
std::vector<OpCase> PickBoxesBackwardCases() { return MakePickBoxesCases(true); }

}  // namespace

OpDef PickBoxesOp() {
  return {.name = "pick_boxes",
          .doc = "(boxes [N,4K], scores [N,K]) -> y [N,4]: the best scored class's four numbers.",
          .attributes = PickBoxesSpecs(),
          .infer = InferPickBoxes,
          .reference = PickBoxesReference,
          .gradient = PickBoxesGradient,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = PickBoxesCases};
}

OpDef PickBoxesBackwardOp() {
  return {.name = "pick_boxes_backward",
          .doc = "(dy [N,4], scores [N,K]) -> dboxes of input_shape, zero but at the best scored class.",
          .attributes = WithInputShape(PickBoxesSpecs()),
          .infer = InferPickBoxesBackward,
          .reference = PickBoxesReferenceBackward,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = PickBoxesBackwardCases};
}

}  // namespace moka

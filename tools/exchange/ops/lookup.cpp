// Rows by their numbers (Embed), numbers by their values (ArgMax), values in another type. A net's numbers are floats,
// ONNX's are int64.
#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

Attributes CastTo(DType dtype) { return {{"to", int64_t{OnnxTypeOf(dtype)}}}; }

void WriteEmbed(OnnxNode& n) {
  const std::string index = n.Add("Cast", {n.In(0)}, CastTo(DType::kInt64));
  n.Give("Gather", {n.In(1), index}, {{"axis", int64_t{0}}});
}

void WriteCast(OnnxNode& n) { n.Give("Cast", {n.In(0)}, CastTo(n.onnx().graph().type(n.node().outputs[0]).dtype)); }

struct LastStep {
  std::string type;
  std::vector<std::string> inputs;
  Attributes attributes = {};
};

// The node that gives the place of the largest of `x` along an axis as a float, with those before it added. Caffe takes
// the last of equals, ONNX the first unless it is told otherwise, which opset 11 has no word for: there the axis is
// turned round.
LastStep PlaceOfLargest(OnnxNode& n, const std::string& x, int64_t axis, int64_t size) {
  Attributes attributes = {{"axis", axis}, {"keepdims", int64_t{1}}};
  const bool takes_first = n.attributes().Bool("first_of_equals");
  if (takes_first || n.opset() >= 12) {
    if (!takes_first) attributes.Set("select_last_index", int64_t{1});
    return {"Cast", {n.Add("ArgMax", {x}, attributes)}, CastTo(DType::kFloat32)};
  }
  if (axis == 0) n.Refuse("the last of equals among images in opset 11; later ones have it");
  const std::string turned = n.Add("Slice", {x, n.List({-1}), n.List({INT64_MIN}), n.List({axis}), n.List({-1})});
  const std::string from_end = n.Add("Cast", {n.Add("ArgMax", {turned}, attributes)}, CastTo(DType::kFloat32));
  return {"Sub", {n.onnx().Scalar(static_cast<double>(size - 1)), from_end}};
}

// The place of the largest value along an axis, or of all values of an image: [N,1,1,..].
void WriteArgmax(OnnxNode& n) {
  const Attributes& a = n.attributes();
  if (a.Int("top_k") != 1) n.Refuse("top_k above 1");
  if (a.Bool("has_axis")) {
    const int64_t axis = CanonicalAxis(a.Int("axis"), n.x(0), "argmax: axis");
    if (!a.Bool("out_max_val")) {
      const LastStep place = PlaceOfLargest(n, n.In(0), axis, n.x(0)[static_cast<int>(axis)]);
      return n.Give(place.type, place.inputs, place.attributes);
    }
    if (n.opset() >= 18) return n.Give("ReduceMax", {n.In(0), n.List({axis})}, {{"keepdims", int64_t{1}}});
    return n.Give("ReduceMax", {n.In(0)}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}});
  }
  if (a.Bool("out_max_val")) n.Refuse("places and values of all of an image");
  const std::string lines = n.Add("Flatten", {n.In(0)}, {{"axis", int64_t{1}}});
  const LastStep place = PlaceOfLargest(n, lines, 1, n.x(0).Count(1, n.x(0).rank()));
  const std::string value = n.Add(place.type, place.inputs, place.attributes);
  Ints dims(static_cast<size_t>(n.y(0).rank()), 1);
  dims[0] = -1;
  n.Give("Reshape", {value, n.List(dims)});
}

}  // namespace

OnnxOp OnnxEmbed() { return {.op = "embed", .write = WriteEmbed}; }
OnnxOp OnnxCast() { return {.op = "cast", .write = WriteCast}; }
OnnxOp OnnxArgmax() { return {.op = "argmax", .write = WriteArgmax}; }

}  // namespace moka

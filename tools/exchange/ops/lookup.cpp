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

// The place of the largest value along an axis, or of all values of an image: [N,1,1,..].
void WriteArgmax(OnnxNode& n) {
  const Attributes& a = n.attributes();
  if (a.Int("top_k") != 1) n.Refuse("top_k above 1");
  if (a.Bool("has_axis")) {
    const int64_t axis = CanonicalAxis(a.Int("axis"), n.x(0), "argmax: axis");
    if (!a.Bool("out_max_val")) {
      const std::string place = n.Add("ArgMax", {n.In(0)}, {{"axis", axis}, {"keepdims", int64_t{1}}});
      return n.Give("Cast", {place}, CastTo(DType::kFloat32));
    }
    if (n.opset() >= 18) return n.Give("ReduceMax", {n.In(0), n.List({axis})}, {{"keepdims", int64_t{1}}});
    return n.Give("ReduceMax", {n.In(0)}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}});
  }
  if (a.Bool("out_max_val")) n.Refuse("places and values of all of an image");
  const std::string lines = n.Add("Flatten", {n.In(0)}, {{"axis", int64_t{1}}});
  const std::string place = n.Add("ArgMax", {lines}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
  const std::string value = n.Add("Cast", {place}, CastTo(DType::kFloat32));
  Ints dims(static_cast<size_t>(n.y(0).rank()), 1);
  dims[0] = -1;
  n.Give("Reshape", {value, n.List(dims)});
}

}  // namespace

OnnxOp OnnxEmbed() { return {.op = "embed", .write = WriteEmbed}; }
OnnxOp OnnxCast() { return {.op = "cast", .write = WriteCast}; }
OnnxOp OnnxArgmax() { return {.op = "argmax", .write = WriteArgmax}; }

}  // namespace moka

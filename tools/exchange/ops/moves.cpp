// Ops that move values and change none. Where a shape has the batch in it, it is left for the reader to fill in: a
// Reshape says 0 for a dimension that stays and -1 for the one that follows from the others.
#include <algorithm>
#include <optional>

#include "core/types.h"
#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

// The list that Reshape takes.
Ints ReshapeList(const OnnxNode& n) {
  const OnnxDims from = n.onnx().net().DimsOf(n.Input(0));
  const OnnxDims to = n.onnx().net().DimsOf(n.node().outputs[0]);
  Ints list;
  bool has_open = false;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool stays = i < from.size() && from[i] == to[i];
    if (to[i].follows_batch() && !stays && has_open) n.Refuse("a reshape with two dimensions that follow the batch");
    has_open = has_open || (to[i].follows_batch() && !stays);
    list.push_back(!to[i].follows_batch() ? to[i].size : stays ? 0 : -1);
  }
  return list;
}

void WriteReshape(OnnxNode& n) {
  const Shape x = n.x(0);
  const Shape y = n.y(0);
  if (x.rank() >= 2 && y.rank() == 2 && y[0] == x[0] && n.onnx().net().DimsOf(n.Input(0))[0].follows_batch())
    return n.Give("Flatten", {n.In(0)}, {{"axis", int64_t{1}}});
  n.Give("Reshape", {n.In(0), n.List(ReshapeList(n))});
}

void WriteTranspose(OnnxNode& n) { n.Give("Transpose", {n.In(0)}, {{"perm", n.attributes().Get<Ints>("perm")}}); }

// The number that is everywhere in operand i; nothing for a value that is made otherwise.
std::optional<double> FillOf(const OnnxNode& n, int i) {
  const NodeId producer = n.onnx().graph().value(n.Input(i)).producer;
  if (producer == kNoId) return std::nullopt;
  const Node& node = n.onnx().graph().node(producer);
  if (node.op->name != "full") return std::nullopt;
  return node.attributes.Float("value");
}

// The operands [first, last) that are no padding: what comes before and after them holds one number everywhere.
struct PaddedPart {
  int first = 0;
  int last = 0;
  double fill = 0;
};

PaddedPart PaddedPartOf(const OnnxNode& n) {
  PaddedPart part{.first = 0, .last = n.input_count(), .fill = 0};
  std::optional<double> fill;
  const auto is_padding = [&](int i) {
    const std::optional<double> own = FillOf(n, i);
    if (!own || (fill && *fill != *own)) return false;
    fill = own;
    return true;
  };
  while (part.first < part.last - 1 && is_padding(part.first)) ++part.first;
  while (part.last > part.first + 1 && is_padding(part.last - 1)) --part.last;
  part.fill = fill.value_or(0);
  return part;
}

// Padding is written as such, which needs no values for each image of the batch.
void WriteConcat(OnnxNode& n) {
  const int axis = CanonicalAxis(n.attributes().Int("axis"), n.x(0), "concat: axis");
  const PaddedPart part = PaddedPartOf(n);
  std::vector<std::string> inner;
  for (int i = part.first; i < part.last; ++i) inner.push_back(n.In(i));
  const Attributes along{{"axis", int64_t{axis}}};
  if (std::ssize(inner) == n.input_count()) return n.Give("Concat", inner, along);
  const auto rank = static_cast<size_t>(n.y(0).rank());
  Ints pads(2 * rank, 0);
  for (int i = 0; i < part.first; ++i) pads[static_cast<size_t>(axis)] += n.x(i)[axis];
  for (int i = part.last; i < n.input_count(); ++i) pads[rank + static_cast<size_t>(axis)] += n.x(i)[axis];
  const std::string whole = inner.size() == 1 ? inner.front() : n.Add("Concat", inner, along);
  n.Give("Pad", {whole, n.List(pads), n.onnx().Scalar(part.fill)}, {{"mode", std::string("constant")}});
}

void WriteSlice(OnnxNode& n) {
  const int64_t axis = CanonicalAxis(n.attributes().Int("axis"), n.x(0), "slice: axis");
  const Ints& sizes = n.attributes().Get<Ints>("sizes");
  const int count = static_cast<int>(sizes.size());
  if (n.opset() < 13) return n.Give("Split", {n.In(0)}, {{"axis", axis}, {"split", sizes}}, 0, count);
  n.Give("Split", {n.In(0), n.List(sizes)}, {{"axis", axis}}, 0, count);
}

// A dimension of 1 in Expand's list leaves the input's as it is.
void WriteExpand(OnnxNode& n) {
  const OnnxDims from = n.onnx().net().DimsOf(n.Input(0));
  const OnnxDims to = n.onnx().net().DimsOf(n.node().outputs[0]);
  Ints list;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].follows_batch() && from[i] != to[i]) n.Refuse("a value that is repeated for each image of the batch");
    list.push_back(from[i] == to[i] ? 1 : to[i].size);
  }
  n.Give("Expand", {n.In(0), n.List(list)});
}

void WriteFlip(OnnxNode& n) {
  const Ints& axes = n.attributes().Get<Ints>("axes");
  const Ints ends(axes.size(), INT64_MIN + 1);
  n.Give("Slice", {n.In(0), n.List(Ints(axes.size(), -1)), n.List(ends), n.List(axes), n.List(Ints(axes.size(), -1))});
}

}  // namespace

OnnxOp OnnxReshape() { return {.op = "reshape", .write = WriteReshape, .batched = {"shape"}}; }
OnnxOp OnnxTranspose() { return {.op = "transpose", .write = WriteTranspose}; }
OnnxOp OnnxConcat() { return {.op = "concat", .write = WriteConcat}; }
OnnxOp OnnxSlice() { return {.op = "slice", .write = WriteSlice}; }
OnnxOp OnnxExpand() { return {.op = "expand", .write = WriteExpand, .batched = {"shape"}}; }
OnnxOp OnnxFlip() { return {.op = "flip", .write = WriteFlip}; }

}  // namespace moka

// Ops that move values and change none. Where a shape has the batch in it, it is left for the reader to fill in: a
// Reshape says 0 for a dimension that stays and -1 for the one that follows from the others.
#include <algorithm>

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

void WriteConcat(OnnxNode& n) {
  const int axis = CanonicalAxis(n.attributes().Int("axis"), n.x(0), "concat: axis");
  n.Give("Concat", n.InputsFrom(0), {{"axis", int64_t{axis}}});
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

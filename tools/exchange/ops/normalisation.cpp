// Batch norms by given statistics, local response normalisation, softmax.
#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

// A channel's scale and shift, given or 1 and 0.
std::string ForEachChannel(OnnxNode& n, int input, const char* name, float otherwise) {
  if (n.input_count() > input) return n.In(input);
  const int64_t channels = n.x(0)[1];
  return n.onnx().AddTensor({.name = n.node().origin.layer + name,
                             .dims = {channels},
                             .floats = std::vector<float>(static_cast<size_t>(channels), otherwise)});
}

void WriteBatchNorm(OnnxNode& n) {
  const Attributes& a = n.attributes();
  if (a.Bool("relu") || a.Bool("sum") || !a.Get<Ints>("stride").empty())
    n.Refuse("a batch norm that was joined with other layers");
  const std::string scale = ForEachChannel(n, 3, "/scale", 1);
  const std::string shift = ForEachChannel(n, 4, "/shift", 0);
  n.Give("BatchNormalization", {n.In(0), scale, shift, n.In(1), n.In(2)}, {{"epsilon", a.Float("eps")}});
}

// Both divide alpha by the size of the window. Over patches ONNX has no such op: x * (k + alpha * mean of
// squares)^-beta.
void WriteLrn(OnnxNode& n) {
  const Attributes& a = n.attributes();
  const int64_t size = a.Int("size");
  if (a.String("region") == "across") {
    return n.Give("LRN", {n.In(0)},
                  {{"alpha", a.Float("alpha")}, {"beta", a.Float("beta")}, {"bias", a.Float("k")}, {"size", size}});
  }
  const auto axes = static_cast<size_t>(n.x(0).rank() - 2);
  const std::string squares = n.Add("Mul", {n.In(0), n.In(0)});
  const std::string mean = n.Add("AveragePool", {squares},
                                 {{"kernel_shape", Ints(axes, size)},
                                  {"strides", Ints(axes, 1)},
                                  {"pads", Ints(2 * axes, size / 2)},
                                  {"count_include_pad", int64_t{1}}});
  const std::string scaled = n.Add("Mul", {mean, n.onnx().Scalar(a.Float("alpha"))});
  const std::string sum = n.Add("Add", {scaled, n.onnx().Scalar(a.Float("k"))});
  const std::string power = n.Add("Pow", {sum, n.onnx().Scalar(-a.Float("beta"))});
  n.Give("Mul", {n.In(0), power});
}

// Before opset 13 Softmax normalises over all axes from the given one on.
void WriteSoftmax(OnnxNode& n) {
  const Shape x = n.x(0);
  const int axis = CanonicalAxis(n.attributes().Int("axis"), x, "softmax: axis");
  if (n.opset() >= 13 || x.Count(axis + 1, x.rank()) == 1)
    return n.Give("Softmax", {n.In(0)}, {{"axis", int64_t{axis}}});
  Ints perm;
  for (int i = 0; i < x.rank(); ++i) perm.push_back(i);
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  const Attributes exchange{{"perm", std::move(perm)}};
  const std::string last = n.Add("Transpose", {n.In(0)}, exchange);
  n.Give("Transpose", {n.Add("Softmax", {last}, {{"axis", int64_t{x.rank() - 1}}})}, exchange);
}

}  // namespace

OnnxOp OnnxBatchNorm() { return {.op = "batch_norm_apply", .write = WriteBatchNorm}; }
OnnxOp OnnxLrn() { return {.op = "lrn", .write = WriteLrn}; }
OnnxOp OnnxSoftmax() { return {.op = "softmax", .write = WriteSoftmax}; }

}  // namespace moka

// Conv and ConvTranspose. Moka's weights lie as ONNX wants them, [K,C/groups,..] and [C,K/groups,..], and its pads are
// all those of the beginnings, then all those of the ends, as well.
#include "tools/exchange/ops/convolution.h"

#include <utility>

#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

Ints JoinedPads(const Attributes& attributes) {
  Ints pads = attributes.Get<Ints>("pad_begin");
  const Ints& ends = attributes.Get<Ints>("pad_end");
  pads.insert(pads.end(), ends.begin(), ends.end());
  return pads;
}

// The attributes that both have; `weight` is [.,.,kernel..].
Attributes GeometryOf(const Attributes& attributes, const Shape& weight) {
  Ints kernel(weight.dims().begin() + 2, weight.dims().end());
  return {{"kernel_shape", std::move(kernel)},
          {"strides", attributes.Get<Ints>("stride")},
          {"dilations", attributes.Get<Ints>("dilation")},
          {"group", attributes.Int("groups")},
          {"pads", JoinedPads(attributes)}};
}

void WriteConvolution(OnnxNode& n) {
  std::vector<std::string> inputs = n.InputsFrom(0);
  const bool sums = n.attributes().Bool("sum");
  const std::string summand = inputs.back();
  if (sums) inputs.pop_back();
  ConvolutionWriter writer(n, std::move(inputs));
  if (sums) writer.Sum(summand);
  writer.Give();
}

// ONNX adds output_padding to the smallest size that a transposed convolution can have.
void WriteDeconvolution(OnnxNode& n) {
  const Attributes& a = n.attributes();
  const Shape w = n.x(1);
  Ints more;
  for (int i = 2; i < w.rank(); ++i) {
    const auto s = static_cast<size_t>(i) - 2;
    const int64_t extent = a.Get<Ints>("dilation")[s] * (w[i] - 1) + 1;
    const int64_t least = a.Get<Ints>("stride")[s] * (n.x(0)[i] - 1) + extent;
    more.push_back(n.y(0)[i] - (least - a.Get<Ints>("pad_begin")[s] - a.Get<Ints>("pad_end")[s]));
  }
  Attributes attributes = GeometryOf(a, w);
  attributes.Set("output_padding", std::move(more));
  n.Give("ConvTranspose", n.InputsFrom(0), attributes);
}

}  // namespace

ConvolutionWriter::ConvolutionWriter(OnnxNode& n, std::vector<std::string> inputs)
    : n_(n), inputs_(std::move(inputs)) {}

std::string ConvolutionWriter::Write(bool gives) {
  std::vector<std::string> types = {"Conv"};
  if (!summand_.empty()) types.emplace_back("Add");
  if (n_.attributes().String("activation") == "relu") types.emplace_back("Relu");
  std::vector<std::string> in = inputs_;
  std::string value;
  for (size_t i = 0; i < types.size(); ++i) {
    const Attributes attributes = i == 0 ? GeometryOf(n_.attributes(), n_.x(1)) : Attributes{};
    if (types[i] == "Add") in.push_back(summand_);
    if (gives && i + 1 == types.size()) return n_.Give(types[i], in, attributes), std::string();
    value = n_.Add(types[i], in, attributes);
    in = {value};
  }
  return value;
}

OnnxOp OnnxConvolution() { return {.op = "convolution", .write = WriteConvolution}; }

OnnxOp OnnxDeconvolution() {
  return {.op = "convolution_backward_data", .write = WriteDeconvolution, .batched = {"input_shape"}};
}

}  // namespace moka

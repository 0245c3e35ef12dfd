// MaxPool and AveragePool with explicit pads and sizes rounded down. Caffe's last window may begin inside the image and
// end outside: the pads at the ends say so exactly, where readers differ in what they make of ceil_mode. AveragePool
// divides by all of a window, so a factor for each place puts Caffe's divisor in its place.
#include <algorithm>

#include "graph/op.h"
#include "tools/exchange/onnx_op.h"
#include "tools/exchange/ops/quantization.h"

namespace moka {
namespace {

// A window over the whole image, without padding.
bool IsGlobal(const OnnxNode& n) {
  const Attributes& a = n.attributes();
  const auto is_zero = [](int64_t pad) { return pad == 0; };
  const Ints& kernel = a.Get<Ints>("kernel");
  const std::span<const int64_t> image = n.x(0).dims().subspan(2);
  return std::ranges::equal(kernel, std::vector<int64_t>(image.begin(), image.end())) &&
         std::ranges::all_of(a.Get<Ints>("pad_begin"), is_zero) && std::ranges::all_of(a.Get<Ints>("pad_end"), is_zero);
}

Attributes WindowsOf(const Attributes& attributes) {
  Ints pads = attributes.Get<Ints>("pad_begin");
  const Ints& ends = attributes.Get<Ints>("pad_end");
  pads.insert(pads.end(), ends.begin(), ends.end());
  return {{"kernel_shape", attributes.Get<Ints>("kernel")},
          {"strides", attributes.Get<Ints>("stride")},
          {"pads", std::move(pads)}};
}

// Integers stay what they are: their maximum, as real numbers, is rounded to itself.
void WritePoolMax(OnnxNode& n) {
  const char* type = IsGlobal(n) ? "GlobalMaxPool" : "MaxPool";
  const Attributes windows = IsGlobal(n) ? Attributes{} : WindowsOf(n.attributes());
  const std::string x = ReadReals(n, 0);
  if (n.onnx().graph().type(n.Input(0)).dtype == DType::kFloat32) return n.Give(type, {x}, windows);
  GiveIntegers(n, n.Add(type, {x}, windows));
}

// The positions of window `place` along an axis that average pooling divides by.
int64_t Counted(const Attributes& a, size_t axis, int64_t image, int64_t place) {
  const int64_t begin = place * a.Get<Ints>("stride")[axis] - a.Get<Ints>("pad_begin")[axis];
  const int64_t end = std::min(begin + a.Get<Ints>("kernel")[axis], image + a.Get<Ints>("count_end")[axis]);
  return end - std::max(begin, -a.Get<Ints>("count_begin")[axis]);
}

// For each place of the result [1,1,out..]: a window's positions over those that are counted.
OnnxTensor FactorsOf(const OnnxNode& n) {
  const Shape x = n.x(0);
  const Shape y = n.y(0);
  OnnxTensor factors{.name = n.node().origin.layer + "/window_share", .dims = {1, 1}, .floats = {1}};
  for (int axis = 2; axis < y.rank(); ++axis) {
    const auto s = static_cast<size_t>(axis) - 2;
    const auto kernel = static_cast<double>(n.attributes().Get<Ints>("kernel")[s]);
    std::vector<float> next;
    for (const float outer : factors.floats) {
      for (int64_t place = 0; place < y[axis]; ++place) {
        const auto counted = static_cast<double>(Counted(n.attributes(), s, x[axis], place));
        next.push_back(static_cast<float>(static_cast<double>(outer) * kernel / counted));
      }
    }
    factors.floats = std::move(next);
    factors.dims.push_back(y[axis]);
  }
  return factors;
}

void WritePoolAverage(OnnxNode& n) {
  if (IsGlobal(n)) return n.Give("GlobalAveragePool", {n.In(0)});
  Attributes attributes = WindowsOf(n.attributes());
  attributes.Set("count_include_pad", int64_t{1});
  OnnxTensor factors = FactorsOf(n);
  if (std::ranges::all_of(factors.floats, [](float factor) { return factor == 1; }))
    return n.Give("AveragePool", {n.In(0)}, attributes);
  const std::string mean = n.Add("AveragePool", {n.In(0)}, attributes);
  n.Give("Mul", {mean, n.onnx().AddTensor(std::move(factors))});
}

}  // namespace

OnnxOp OnnxPoolMax() { return {.op = "pool_max", .write = WritePoolMax}; }
// The same for inference, without the places of the maxima.
OnnxOp OnnxPoolMaxForward() { return {.op = "pool_max_forward", .write = WritePoolMax}; }
OnnxOp OnnxPoolAverage() { return {.op = "pool_average", .write = WritePoolAverage}; }

}  // namespace moka

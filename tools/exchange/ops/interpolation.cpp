// Resize of planes, bilinear with aligned corners (Interp). Factors say the sizes, as OpenCV reads no sizes of some
// axes alone, and the number of images is open; a reader multiplies and rounds down, so they are raised until that
// gives the size.
#include <cmath>

#include "graph/op.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

float FactorFor(int64_t from, int64_t to) {
  float factor = static_cast<float>(to) / static_cast<float>(from);
  // The exact product: readers differ in the type that they multiply in.
  while (static_cast<double>(from) * static_cast<double>(factor) < static_cast<double>(to))
    factor = std::nextafter(factor, 1e30F);
  return factor;
}

void WriteInterpolate(OnnxNode& n) {
  const Shape x = n.x(0);
  const Ints& size = n.attributes().Get<Ints>("size");
  const Attributes attributes{{"mode", std::string("linear")},
                              {"coordinate_transformation_mode", std::string("align_corners")}};
  const std::string layer = n.node().origin.layer;
  const std::string factors = n.onnx().AddTensor(
      {.name = layer + "/factors", .dims = {4}, .floats = {1, 1, FactorFor(x[2], size[0]), FactorFor(x[3], size[1])}});
  // Opset 11 has a region for another mode before the factors, which must be there.
  const std::string region =
      n.opset() >= 13 ? "" : n.onnx().AddTensor({.name = layer + "/region", .dims = {0}, .floats = {}});
  n.Give("Resize", {n.In(0), region, factors}, attributes);
}

}  // namespace

OnnxOp OnnxInterpolate() { return {.op = "interpolate", .write = WriteInterpolate}; }

}  // namespace moka

// Blocks of pixels as channels: y[n,(r*bw+s)*C+c,p,q] = x[n,c,p*bh+r-pad_h,q*bw+s-pad_w] for blocks of bh x bw pixels,
// 0 where that lies outside x and in channels from bh*bw*C on. So a convolution with the strides of a block over few
// channels is one without strides over many, which is what tensor cores take: its weights go the same way. And back for
// the weights' gradient: depth_to_space gives x[n,c,h,w] = y[n,(h%bh*bw+w%bw)*C+c,h/bh,w/bw].
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kSpaceToDepthName = "space_to_depth";
constexpr const char* kDepthToSpaceName = "depth_to_space";

Ints TwoOf(std::string_view op, const Attributes& attributes, const char* name, int64_t least) {
  const Ints& values = attributes.Get<Ints>(name);
  if (values.size() == 2 && values[0] >= least && values[1] >= least) return values;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " must be two numbers of at least ", least, ", found ",
                                         ToText(AttributeValue(values))));
}

// Errors: kConfig unless y has the images of x and room for a block's channels.
void CheckDepth(std::string_view op, const Shape& x, const Shape& y, const Ints& block) {
  if (x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && y[1] >= block[0] * block[1] * x[1]) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": blocks of ", block[0], "x", block[1], " of ", x.ToString(),
                                         " do not fit the channels of ", y.ToString()));
}

std::vector<TensorType> InferSpaceToDepth(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kSpaceToDepthName, in, 1, 1);
  CheckFloat(kSpaceToDepthName, "x", in[0]);
  const Shape y = ShapeAttribute(kSpaceToDepthName, attributes, "shape");
  TwoOf(kSpaceToDepthName, attributes, "pad", 0);
  CheckDepth(kSpaceToDepthName, in[0].shape, y, TwoOf(kSpaceToDepthName, attributes, "block", 1));
  return {PlainType(in[0].dtype, y)};
}

std::vector<TensorType> InferDepthToSpace(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kDepthToSpaceName, in, 1, 1);
  CheckFloat(kDepthToSpaceName, "y", in[0]);
  const Shape x = ShapeAttribute(kDepthToSpaceName, attributes, "shape");
  const Ints block = TwoOf(kDepthToSpaceName, attributes, "block", 1);
  CheckDepth(kDepthToSpaceName, x, in[0].shape, block);
  if (x[2] > in[0].shape[2] * block[0] || x[3] > in[0].shape[3] * block[1]) {
    throw Error(ErrorKind::kConfig,
                StrCat(kDepthToSpaceName, ": ", in[0].ToString(), " has not the pixels of ", x.ToString()));
  }
  return {PlainType(in[0].dtype, x)};
}

void SpaceToDepthReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Ints& block = attributes.Get<Ints>("block");
  const Ints& pad = attributes.Get<Ints>("pad");
  const Shape& x = in[0].type.shape;
  VisitElements(out[0].type.shape, [&](const Index& index, int64_t offset) {
    const int64_t part = index[1] / x[1];
    const int64_t h = index[2] * block[0] + part / block[1] - pad[0];
    const int64_t w = index[3] * block[1] + part % block[1] - pad[1];
    const bool is_inside = part < block[0] * block[1] && h >= 0 && h < x[2] && w >= 0 && w < x[3];
    const Index from{index[0], index[1] % x[1], h, w};
    out[0].values[static_cast<size_t>(offset)] = is_inside ? in[0].values[static_cast<size_t>(RowMajor(x, from))] : 0;
  });
}

void DepthToSpaceReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Ints& block = attributes.Get<Ints>("block");
  const Shape& x = out[0].type.shape;
  VisitElements(x, [&](const Index& index, int64_t offset) {
    const int64_t part = index[2] % block[0] * block[1] + index[3] % block[1];
    const Index from{index[0], part * x[1] + index[1], index[2] / block[0], index[3] / block[1]};
    out[0].values[static_cast<size_t>(offset)] = in[0].values[static_cast<size_t>(RowMajor(in[0].type.shape, from))];
  });
}

std::vector<OpCase> SpaceToDepthCases() {
  const auto by = [](Ints block, Ints pad, Ints shape) {
    return Attributes{{"block", std::move(block)}, {"pad", std::move(pad)}, {"shape", std::move(shape)}};
  };
  return {{"pictures", {Float32({2, 3, 9, 10})}, by({2, 2}, {3, 3}, {2, 16, 8, 8})},
          {"weights", {Float32({5, 3, 7, 7})}, by({2, 2}, {0, 0}, {5, 16, 4, 4})},
          {"exact", {Float32({1, 2, 4, 8})}, by({2, 4}, {0, 0}, {1, 16, 2, 2})},
          {"odd_channels", {Float32({2, 1, 5, 5})}, by({3, 3}, {1, 2}, {2, 11, 3, 3})},
          {"large_blocks", {Float32({2, 3, 11, 11})}, by({4, 4}, {0, 0}, {2, 48, 3, 3})}};
}

std::vector<OpCase> DepthToSpaceCases() {
  const auto by = [](Ints block, Ints shape) {
    return Attributes{{"block", std::move(block)}, {"shape", std::move(shape)}};
  };
  return {{"weights", {Float32({5, 16, 4, 4})}, by({2, 2}, {5, 3, 7, 7})},
          {"large_blocks", {Float32({2, 48, 3, 3})}, by({4, 4}, {2, 3, 11, 11})},
          {"uneven_blocks", {Float32({1, 17, 2, 2})}, by({2, 4}, {1, 2, 3, 8})}};
}

}  // namespace

OpDef SpaceToDepthOp() {
  return {.name = kSpaceToDepthName,
          .doc = "x [N,C,H,W] -> y of the shape: blocks of pixels as channels, 0 outside x and in what is left over.",
          .attributes = {{"block", {}, "height and width of a block"},
                         {"pad", {}, "rows and columns of zeros before x"},
                         ShapeSpec("shape", "the full shape of y")},
          .infer = InferSpaceToDepth,
          .reference = SpaceToDepthReference,
          .cases = SpaceToDepthCases};
}

OpDef DepthToSpaceOp() {
  return {.name = kDepthToSpaceName,
          .doc = "y [N,D,P,Q] -> x of the shape: the pixels that space_to_depth without padding put into y.",
          .attributes = {{"block", {}, "height and width of a block"}, ShapeSpec("shape", "the full shape of x")},
          .infer = InferDepthToSpace,
          .reference = DepthToSpaceReference,
          .cases = DepthToSpaceCases};
}

}  // namespace moka

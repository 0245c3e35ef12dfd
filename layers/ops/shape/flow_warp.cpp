// An image read where a flow points: y[n,c,i,j] = x[n,c] at (i + flow[n,1,i,j], j + flow[n,0,i,j]), bilinear between
// the four pixels around; a place outside the image gives the fill value (FlowNet 2, Ilg et al., arXiv 1612.01925). The
// flow, and with it y, may have another height and width than x.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

void CheckShapes(std::string_view op, std::span<const TensorType> in) {
  CheckFloat(op, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || x.Count() < 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [N,C,H,W], found ", x.ToString()));
  }
  const Shape& flow = in[1].shape;
  if (flow.rank() != 4 || flow.Count() < 1 || flow[0] != x[0] || flow[1] != 2) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": flow must be [", x[0], ",2,h,w] for x ", x.ToString(), ", found ", flow.ToString()));
  }
}

// y's: x's images and channels, the flow's pixels.
Shape OutputShape(const Shape& x, const Shape& flow) { return {x[0], x[1], flow[2], flow[3]}; }

// The four pixels around a place, and the parts of the way to the lower right.
struct Place {
  int64_t top, left, bottom, right;
  double down, across;
};

// False outside the image.
bool Find(const Shape& x, const RefTensor& flow, int64_t n, int64_t i, int64_t j, Place& place) {
  const Shape& size = flow.type.shape;
  const int64_t plane = size[2] * size[3];
  const auto at = static_cast<size_t>(2 * plane * n + i * size[3] + j);
  const double across = static_cast<double>(j) + flow.values[at];
  const double down = static_cast<double>(i) + flow.values[at + static_cast<size_t>(plane)];
  if (!(across >= 0 && down >= 0 && across < static_cast<double>(x[3]) && down < static_cast<double>(x[2]))) {
    return false;
  }
  place.top = static_cast<int64_t>(down);
  place.left = static_cast<int64_t>(across);
  place.bottom = std::min(place.top + 1, x[2] - 1);
  place.right = std::min(place.left + 1, x[3] - 1);
  place.down = down - static_cast<double>(place.top);
  place.across = across - static_cast<double>(place.left);
  return true;
}

// Calls f(n, i, j, place or null) for every pixel.
template <class F>
void VisitFlowWarpPlaces(const Shape& x, const RefTensor& flow, F&& f) {
  Place place;
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t i = 0; i < flow.type.shape[2]; ++i) {
      for (int64_t j = 0; j < flow.type.shape[3]; ++j) f(n, i, j, Find(x, flow, n, i, j, place) ? &place : nullptr);
    }
  }
}

std::vector<TensorType> InferFlowWarp(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("flow_warp", in, 2, 2);
  CheckShapes("flow_warp", in);
  return {PlainType(in[0].dtype, OutputShape(in[0].shape, in[1].shape))};
}

void FlowWarpReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const Shape& size = out[0].type.shape;
  const double fill = attributes.Bool("fill_nan") ? std::numeric_limits<double>::quiet_NaN() : 0;
  VisitFlowWarpPlaces(shape, in[1], [&](int64_t n, int64_t i, int64_t j, const Place* p) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      const int64_t plane = (n * shape[1] + c) * shape[2];
      const auto x = [&](int64_t h, int64_t w) {
        return in[0].values[static_cast<size_t>((plane + h) * shape[3] + w)];
      };
      double y = fill;
      if (p != nullptr) {
        y = (1 - p->down) * ((1 - p->across) * x(p->top, p->left) + p->across * x(p->top, p->right)) +
            p->down * ((1 - p->across) * x(p->bottom, p->left) + p->across * x(p->bottom, p->right));
      }
      out[0].values[static_cast<size_t>(((n * shape[1] + c) * size[2] + i) * size[3] + j)] = y;
    }
  });
}

void FlowWarpGradient(GradientContext& c) {
  if (!c.wants(0) && !c.wants(1)) return;
  const std::vector<ValueId> dx = c.b().Add("flow_warp_backward", {c.x(0), c.x(1), c.dy(0)});
  for (int i = 0; i < 2; ++i) {
    if (c.wants(i)) c.SetDx(i, dx[static_cast<size_t>(i)]);
  }
}

std::vector<TensorType> InferFlowWarpBackward(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("flow_warp_backward", in, 3, 3);
  CheckShapes("flow_warp_backward", in);
  CheckShape("flow_warp_backward", "dy", in[2].shape, OutputShape(in[0].shape, in[1].shape), "as y");
  return {PlainType(in[0].dtype, in[0].shape), PlainType(in[1].dtype, in[1].shape)};
}

void FlowWarpReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const Shape& size = in[1].type.shape;
  out[0].values.assign(out[0].values.size(), 0);
  out[1].values.assign(out[1].values.size(), 0);
  VisitFlowWarpPlaces(shape, in[1], [&](int64_t n, int64_t i, int64_t j, const Place* p) {
    if (p == nullptr) return;
    double d_across = 0;
    double d_down = 0;
    for (int64_t c = 0; c < shape[1]; ++c) {
      const int64_t plane = (n * shape[1] + c) * shape[2];
      const auto at = [&](int64_t h, int64_t w) { return static_cast<size_t>((plane + h) * shape[3] + w); };
      const double dy = in[2].values[static_cast<size_t>(((n * shape[1] + c) * size[2] + i) * size[3] + j)];
      const size_t corners[] = {at(p->top, p->left), at(p->top, p->right), at(p->bottom, p->left),
                                at(p->bottom, p->right)};
      out[0].values[corners[0]] += dy * (1 - p->down) * (1 - p->across);
      out[0].values[corners[1]] += dy * (1 - p->down) * p->across;
      out[0].values[corners[2]] += dy * p->down * (1 - p->across);
      out[0].values[corners[3]] += dy * p->down * p->across;
      const auto x = [&](int k) { return in[0].values[corners[k]]; };
      d_across += dy * ((1 - p->down) * (x(1) - x(0)) + p->down * (x(3) - x(2)));
      d_down += dy * ((1 - p->across) * (x(2) - x(0)) + p->across * (x(3) - x(1)));
    }
    const int64_t pixels = size[2] * size[3];
    const auto flow = static_cast<size_t>(2 * pixels * n + i * size[3] + j);
    out[1].values[flow] = d_across;
    out[1].values[flow + static_cast<size_t>(pixels)] = d_down;
  });
}

std::vector<OpCase> MakeFlowWarpCases(bool backward) {
  std::vector<OpCase> cases = {
      {.name = "near", .inputs = {Float32({2, 3, 4, 5}), Float32({2, 2, 4, 5})}, .attributes = {}},
      {.name = "far", .inputs = {Float32({1, 2, 4, 3}), Float32({1, 2, 4, 3})}, .attributes = {}}};
  cases.push_back({.name = "smaller", .inputs = {Float32({2, 2, 5, 4}), Float32({2, 2, 2, 3})}, .attributes = {}});
  cases[0].ranges = {{1, -0.9, 0.95}};
  cases[1].ranges = {{1, -3.1, 3.05}};
  cases[2].ranges = {{1, -1.1, 3.9}};
  if (backward) {
    for (OpCase& c : cases) {
      c.inputs.push_back({DType::kFloat32, OutputShape(c.inputs[0].shape, c.inputs[1].shape), {}});
    }
  }
  return cases;
}

}  // namespace

OpDef FlowWarpOp() {
  return {
      .name = "flow_warp",
      .doc =
          "(x [N,C,H,W], flow [N,2,h,w]) -> y [N,C,h,w]: x at each pixel moved by its flow (across, down), bilinear; "
          "outside the image 0.",
      .attributes = {{"fill_nan", false, "outside the image NaN instead"}},
      .infer = InferFlowWarp,
      .reference = FlowWarpReference,
      .gradient = FlowWarpGradient,
      .precision = Precision::kKeep32,
      .on_host = on_host::kRare,
      .cases = [] { return MakeFlowWarpCases(false); }};
}

OpDef FlowWarpBackwardOp() {
  return {.name = "flow_warp_backward",
          .doc = "(x, flow, dy) -> dx like x, dflow like flow.",
          .attributes = {},
          .infer = InferFlowWarpBackward,
          .reference = FlowWarpReferenceBackward,
          .precision = Precision::kKeep32,
          .on_host = on_host::kRare,
          .cases = [] { return MakeFlowWarpCases(true); }};
}

}  // namespace moka

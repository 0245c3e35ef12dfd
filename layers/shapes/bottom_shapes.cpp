// Bottoms by the layer's own function, else by its trait of top shapes; and what such functions share: pictures under
// windows and steps under recurrences.
#include "layers/shapes/bottom_shapes.h"

#include <algorithm>
#include <optional>

namespace moka {
namespace {

constexpr int64_t kMostPooledSide = 4096;  // of a map that was pooled

struct PictureWindow {
  int64_t kernel;
  int64_t stride;
  int64_t pad;
};

// A field given once for both axes, or one an axis.
template <class List>
std::optional<int64_t> AxisValue(const List& list, int axis, int64_t otherwise) {
  if (list.empty()) return otherwise;
  if (list.size() != 1 && list.size() != 2) return std::nullopt;
  return int64_t{list[list.size() == 1 ? 0 : axis]};
}

// The window along axis 0 or 1 of a picture; none if its fields are not all said.
template <class Fields>
std::optional<PictureWindow> WindowAlong(const Fields& p, int axis) {
  const int64_t kernel_side = axis == 0 ? p.kernel_h() : p.kernel_w();
  const int64_t stride_side = axis == 0 ? p.stride_h() : p.stride_w();
  const int64_t pad_side = axis == 0 ? p.pad_h() : p.pad_w();
  const std::optional<int64_t> kernel = AxisValue(p.kernel_size(), axis, kernel_side);
  const std::optional<int64_t> stride = AxisValue(p.stride(), axis, std::max<int64_t>(stride_side, 1));
  const std::optional<int64_t> pad = AxisValue(p.pad(), axis, pad_side);
  if (!kernel || !stride || !pad || *kernel < 1 || *stride < 1) return std::nullopt;
  return PictureWindow{*kernel, *stride, *pad};
}

int64_t Dilation(const ConvolutionParameter& p, int axis) { return AxisValue(p.dilation(), axis, 1).value_or(1); }
int64_t Dilation(const PoolingParameter& /*p*/, int /*axis*/) { return 1; }

// The least picture of so many channels that the windows make `top` of.
template <class Fields>
std::optional<BottomShape> Unwindowed(const Fields& p, const Shape& top, int64_t channels) {
  BottomShape need{.bottom = 0, .shape = top.With(1, channels), .is_windowed = false};
  for (const int axis : {0, 1}) {
    const std::optional<PictureWindow> window = WindowAlong(p, axis);
    if (!window || top[axis + 2] > kMostPooledSide) return std::nullopt;
    const int64_t covers = (window->kernel - 1) * Dilation(p, axis) + 1;
    const int64_t side = (top[axis + 2] - 1) * window->stride + covers - 2 * window->pad;
    if (covers > kMostPooledSide || side < 1 || side > kMostPooledSide * kMostPooledSide) return std::nullopt;
    need.shape = need.shape.With(axis + 2, side);
    need.is_windowed |= covers != window->stride || window->pad != 0;
  }
  return need;
}

Shape JoinedShapes(const Shape& first, int count, const Shape& rest) {
  std::vector<int64_t> dims;
  dims.reserve(static_cast<size_t>(std::max(count, rest.rank())));
  for (int i = 0; i < count; ++i) dims.push_back(first[i]);
  for (int i = count; i < rest.rank(); ++i) dims.push_back(rest[i]);
  return Shape(dims);
}

template <class Fields>
int MostValues(const Fields& p) {
  return std::max({p.kernel_size_size(), p.stride_size(), p.pad_size()});
}

}  // namespace

BottomShapes BottomsFor(const TopNeed& need) {
  const LayerDef* def = FindLayer(need.layer.type());
  if (def == nullptr) return {};
  if (def->bottoms != nullptr) return def->bottoms(need);
  const TopShape top_shape = def->traits.top_shape;
  const size_t count = top_shape == TopShape::kOfBottoms ? need.known.size() : top_shape == TopShape::kOfFirst ? 1 : 0;
  BottomShapes bottoms;
  for (size_t i = 0; i < count; ++i) bottoms.push_back({.bottom = static_cast<int>(i), .shape = need.top});
  return bottoms;
}

BottomShapes FirstBottom(const std::optional<Shape>& shape) {
  if (!shape) return {};
  return {{.bottom = 0, .shape = *shape}};
}

BottomShapes BottomsOfRecurrence(const TopNeed& need) {
  BottomShapes bottoms;
  const Shape& top = need.top;
  if (top.rank() < 2) return bottoms;
  const Shape* x = need.x();
  if (x != nullptr && x->rank() >= 3) bottoms.push_back({.bottom = 0, .shape = JoinedShapes(top, 2, *x)});
  if (need.known.size() > 1) bottoms.push_back({.bottom = 1, .shape = {top[0], top[1]}});
  return bottoms;
}

std::optional<BottomShape> BottomUnderWindows(const ConvolutionParameter& p, const Shape& top, int64_t channels) {
  return Unwindowed(p, top, channels);
}

std::optional<BottomShape> BottomUnderWindows(const PoolingParameter& p, const Shape& top, int64_t channels) {
  return Unwindowed(p, top, channels);
}

int WindowAxes(const ConvolutionParameter& p) {
  const int axes = std::max(MostValues(p), p.dilation_size());
  return axes > 1 ? axes : 0;
}

int WindowAxes(const PoolingParameter& p) {
  const int axes = MostValues(p);
  return axes > 1 ? axes : 0;
}

}  // namespace moka

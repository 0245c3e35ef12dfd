#include "tools/check/bottom_shapes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace moka {
namespace {

constexpr std::array<std::string_view, 21> kShapeKeeping = {
    "AbsVal", "BN",        "BNLL",  "BatchNorm", "Bias", "Dropout", "ELU",   "Eltwise", "Exp",       "L2Norm", "Log",
    "MVN",    "Normalize", "PReLU", "Power",     "ReLU", "Sigmoid", "Split", "TanH",    "Threshold", "Scale"};
constexpr std::array<std::string_view, 4> kBottomShapesRecurrent = {"ConvLSTM", "GRU", "LSTM", "RNN"};

constexpr int64_t kBottomShapesFeatures =
    4096;  // of an item whose features nothing counts: those of AlexNet's and VGG's layers
constexpr int64_t kBottomShapesMostSide = 4096;  // of a map that was pooled

struct Window {
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
std::optional<Window> BottomShapesWindowOf(const Fields& p, int axis) {
  const int64_t kernel_side = axis == 0 ? p.kernel_h() : p.kernel_w();
  const int64_t stride_side = axis == 0 ? p.stride_h() : p.stride_w();
  const int64_t pad_side = axis == 0 ? p.pad_h() : p.pad_w();
  const std::optional<int64_t> kernel = AxisValue(p.kernel_size(), axis, kernel_side);
  const std::optional<int64_t> stride = AxisValue(p.stride(), axis, std::max<int64_t>(stride_side, 1));
  const std::optional<int64_t> pad = AxisValue(p.pad(), axis, pad_side);
  if (!kernel || !stride || !pad || *kernel < 1 || *stride < 1) return std::nullopt;
  return Window{*kernel, *stride, *pad};
}

int64_t Dilation(const ConvolutionParameter& p, int axis) { return AxisValue(p.dilation(), axis, 1).value_or(1); }
int64_t Dilation(const PoolingParameter& /*p*/, int /*axis*/) { return 1; }

// The least picture of so many channels that the windows make `top` of.
template <class Fields>
std::optional<BottomShape> Unwindowed(const Fields& p, const Shape& top, int64_t channels) {
  BottomShape need{.bottom = 0, .shape = top.With(1, channels), .is_windowed = false};
  for (const int axis : {0, 1}) {
    const std::optional<Window> window = BottomShapesWindowOf(p, axis);
    if (!window || top[axis + 2] > kBottomShapesMostSide) return std::nullopt;
    const int64_t covers = (window->kernel - 1) * Dilation(p, axis) + 1;
    const int64_t side = (top[axis + 2] - 1) * window->stride + covers - 2 * window->pad;
    if (covers > kBottomShapesMostSide || side < 1 || side > kBottomShapesMostSide * kBottomShapesMostSide)
      return std::nullopt;
    need.shape = need.shape.With(axis + 2, side);
    need.is_windowed |= covers != window->stride || window->pad != 0;
  }
  return need;
}

Shape BottomShapesJoined(const Shape& first, int count, const Shape& rest) {
  std::vector<int64_t> dims;
  dims.reserve(static_cast<size_t>(std::max(count, rest.rank())));
  for (int i = 0; i < count; ++i) dims.push_back(first[i]);
  for (int i = count; i < rest.rank(); ++i) dims.push_back(rest[i]);
  return Shape(dims);
}

std::optional<Shape> OfProduct(const InnerProductParameter& p, const Shape& top, const Shape* x) {
  const int rank = top.rank();
  const bool is_last = p.axis() == -1 || p.axis() == rank - 1;
  if (rank < 2 || !is_last || (p.axis() >= 0 && p.axis() < 2)) return std::nullopt;
  return top.With(rank - 1, x != nullptr && x->rank() == rank ? (*x)[rank - 1] : kBottomShapesFeatures);
}

// Items in rows, if the fields leave the top's shape open.
std::optional<Shape> OfReshape(const ReshapeParameter& p, const Shape& top, const Shape* x) {
  const auto& dims = p.shape().dim();
  if (p.axis() != 0 || p.num_axes() != -1 || dims.size() != top.rank()) return std::nullopt;
  if (std::ranges::find(dims, -1) == dims.end()) return std::nullopt;
  for (int i = 0; i < top.rank(); ++i) {
    if (dims[i] > 0 && dims[i] != top[i]) return std::nullopt;
  }
  if (x == nullptr || x->rank() < 1 || (*x)[0] < 1 || top.Count() % (*x)[0] != 0) return std::nullopt;
  const int64_t row = top.Count() / (*x)[0];
  return row == 1 ? Shape{(*x)[0]} : Shape{(*x)[0], row};
}

// Axes that the order leaves out come last, as they stand.
std::optional<Shape> OfPermute(const PermuteParameter& p, const Shape& top) {
  std::vector<int> order;
  for (const uint32_t axis : p.order()) {
    if (axis >= static_cast<uint32_t>(top.rank())) return std::nullopt;
    order.push_back(static_cast<int>(axis));
  }
  for (int axis = 0; axis < top.rank(); ++axis) {
    if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
  }
  if (order.size() != static_cast<size_t>(top.rank())) return std::nullopt;  // an axis twice
  Shape bottom = top;
  for (int i = 0; i < top.rank(); ++i) bottom = bottom.With(order[static_cast<size_t>(i)], top[i]);
  return bottom;
}

void AddRecurrent(const Shape& top, std::span<const Shape* const> known, std::vector<BottomShape>& needs) {
  if (top.rank() < 2) return;
  const Shape* x = known.empty() ? nullptr : known[0];
  if (x != nullptr && x->rank() >= 3) needs.push_back({.bottom = 0, .shape = BottomShapesJoined(top, 2, *x)});
  if (known.size() > 1) needs.push_back({.bottom = 1, .shape = {top[0], top[1]}});
}

void AddConcat(const ConcatParameter& p, const Shape& top, std::span<const Shape* const> known,
               std::vector<BottomShape>& needs) {
  const int64_t given = p.has_concat_dim() ? int64_t{p.concat_dim()} : p.axis();
  const int64_t axis = given < 0 ? given + top.rank() : given;
  if (axis < 0 || axis >= top.rank()) return;
  for (size_t i = 0; i < known.size(); ++i) {
    const int along = static_cast<int>(axis);
    if (known[i] == nullptr || known[i]->rank() <= along) continue;
    if (known[i]->rank() != top.rank() && along > 0) continue;  // items are items, whatever they consist of
    needs.push_back({.bottom = static_cast<int>(i), .shape = top.With(along, (*known[i])[along])});
  }
}

}  // namespace

bool KeepsShape(const std::string& type) { return std::ranges::find(kShapeKeeping, type) != kShapeKeeping.end(); }

int WindowAxes(const LayerParameter& layer) {
  const auto most = [](const auto& p) { return std::max({p.kernel_size_size(), p.stride_size(), p.pad_size()}); };
  int axes = 0;
  if (layer.type() == "Convolution")
    axes = std::max(most(layer.convolution_param()), layer.convolution_param().dilation_size());
  if (layer.type() == "Pooling") axes = most(layer.pooling_param());
  return axes > 1 ? axes : 0;
}

std::vector<BottomShape> BottomShapes(const LayerParameter& layer, const Shape& top,
                                      std::span<const Shape* const> known) {
  std::vector<BottomShape> needs;
  const std::string& type = layer.type();
  const int rank = top.rank();
  const Shape* x = known.empty() ? nullptr : known[0];
  const auto add = [&](const std::optional<Shape>& shape) {
    if (shape) needs.push_back({.bottom = 0, .shape = *shape});
  };
  if (KeepsShape(type)) {
    const size_t count = type == "Scale" || type == "Bias" ? 1 : known.size();
    for (size_t i = 0; i < count; ++i) needs.push_back({.bottom = static_cast<int>(i), .shape = top});
  } else if (type == "Flatten" && rank == 2) {
    add(top);
  } else if (type == "Embed" && rank > 1) {
    add(top.Erased(rank - 1));
  } else if (type == "InnerProduct") {
    add(OfProduct(layer.inner_product_param(), top, x));
  } else if (type == "Reshape") {
    add(OfReshape(layer.reshape_param(), top, x));
  } else if (type == "Permute") {
    add(OfPermute(layer.permute_param(), top));
  } else if (type == "Concat") {
    AddConcat(layer.concat_param(), top, known, needs);
  } else if (std::ranges::find(kBottomShapesRecurrent, type) != kBottomShapesRecurrent.end()) {
    AddRecurrent(top, known, needs);
  } else if (type == "Pooling" && rank == 4 && !layer.pooling_param().global_pooling()) {
    if (const auto need = Unwindowed(layer.pooling_param(), top, top[1])) needs.push_back(*need);
  } else if (type == "Convolution" && rank == 4 && x != nullptr && x->rank() == 4) {
    if (auto need = Unwindowed(layer.convolution_param(), top, (*x)[1])) {
      need->is_windowed = true;  // a map of pictures, where a layer of cells is one of labels
      needs.push_back(*need);
    }
  }
  return needs;
}

}  // namespace moka

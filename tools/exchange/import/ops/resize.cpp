// Resize of planes. What ONNX says of where pixels lie is computed for every row and column, and the layer that takes
// the same ones is looked for.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

constexpr int64_t kMostPixels = 1 << 16;  // along an axis

struct Sizes {
  Ints out;                    // one an axis
  std::vector<double> scales;  // likewise
};

std::vector<double> ScalesAt(const ImportNode& n, int i) {
  if (!n.Has(i)) return {};
  const OnnxConstant list = n.Constant(i);
  if (list == nullptr || list->is_whole) n.Refuse("its scales are computed");
  return {list->floats.begin(), list->floats.end()};
}

Sizes SizesOf(const ImportNode& n) {
  const Ints& x = n.x(0).dims;
  Ints axes = n.attributes().List("axes");
  if (axes.empty()) {
    for (size_t i = 0; i < x.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  const std::vector<double> scales = ScalesAt(n, 2);
  const Ints sizes = ListAt(n, 3, {}).value_or(Ints{});
  if (scales.empty() == sizes.empty()) n.Refuse("it says its size by both scales and sizes, or by neither");
  if (std::max(scales.size(), sizes.size()) != axes.size()) n.Refuse("its sizes are not one an axis");
  Sizes result{x, std::vector<double>(x.size(), 1)};
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= std::ssize(x)) n.Refuse(StrCat("it resizes axis ", axes[i]));
    const auto a = static_cast<size_t>(axes[i]);
    const auto in = static_cast<double>(x[a]);
    const double wanted = sizes.empty() ? std::floor(in * scales[i]) : static_cast<double>(sizes[i]);
    if (!(wanted >= 1 && wanted <= kMostPixels)) n.Refuse(StrCat("it makes ", wanted, " pixels of ", x[a]));
    result.out[a] = static_cast<int64_t>(wanted);
    result.scales[a] = sizes.empty() ? scales[i] : wanted / in;
    // Layers know the sizes alone.
    if (std::abs(result.scales[a] * in - wanted) > 1e-3 &&
        n.attributes().Text("coordinate_transformation_mode", "half_pixel") != "align_corners")
      n.Refuse(StrCat("its scale ", result.scales[a], " of ", x[a], " pixels is no whole number of them"));
  }
  return result;
}

// Where pixel i of the result lies, as ONNX says; nothing for a mode that is not known here.
std::optional<double> PlaceOf(const std::string& mode, int64_t i, int64_t in, int64_t out, double scale) {
  const auto at = static_cast<double>(i);
  if (mode == "asymmetric") return at / scale;
  if (mode == "half_pixel" || mode == "half_pixel_symmetric") return (at + 0.5) / scale - 0.5;
  if (mode == "pytorch_half_pixel") return out > 1 ? (at + 0.5) / scale - 0.5 : 0;
  if (mode == "align_corners") return out > 1 ? at * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  return std::nullopt;
}

// The pixel that is nearest to a place; nothing for a rounding that is not known here.
std::optional<int64_t> NearestTo(double place, const std::string& rounding, int64_t in) {
  // A place that is a whole number but for the last bits of the scale is meant to be one.
  if (std::abs(place * 2 - std::round(place * 2)) < 1e-6) place = std::round(place * 2) / 2;
  double pixel = 0;
  if (rounding == "round_prefer_floor") {
    pixel = std::ceil(place - 0.5);
  } else if (rounding == "round_prefer_ceil") {
    pixel = std::floor(place + 0.5);
  } else if (rounding == "floor") {
    pixel = std::floor(place);
  } else if (rounding == "ceil") {
    pixel = std::ceil(place);
  } else {
    return std::nullopt;
  }
  return std::clamp<int64_t>(static_cast<int64_t>(pixel), 0, in - 1);
}

enum class Grid : uint8_t { kPlain, kAligned, kHalfPixel };

// As layers/types/shape/resize.cpp takes them.
int64_t PixelOfLayer(Grid grid, int64_t i, int64_t in, int64_t out) {
  const auto at = static_cast<float>(i);
  const bool is_aligned = grid == Grid::kAligned && out > 1;
  const float scale = is_aligned ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                 : static_cast<float>(in) / static_cast<float>(out);
  const float place = grid == Grid::kHalfPixel ? std::floor((at + 0.5F) * scale)
                      : grid == Grid::kAligned ? std::round(at * scale)
                                               : std::floor(at * scale);
  return std::clamp<int64_t>(static_cast<int64_t>(place), 0, in - 1);
}

template <class Parameter>
void SetFields(const Ints& out, Grid grid, Parameter& p) {
  p.set_output_height(static_cast<int32_t>(out[2]));
  p.set_output_width(static_cast<int32_t>(out[3]));
  p.set_data_format("NCHW");
  if (grid == Grid::kAligned) p.set_align_corners(true);
  if (grid == Grid::kHalfPixel) p.set_half_pixel_centers(true);
}

bool TakesSame(const ImportNode& n, Grid grid, const Sizes& sizes, const std::string& mode) {
  const std::string rounding = n.attributes().Text("nearest_mode", "round_prefer_floor");
  for (size_t a = 2; a < 4; ++a) {
    const int64_t in = n.x(0).dims[a];
    const int64_t out = sizes.out[a];
    for (int64_t i = 0; in != out && i < out; ++i) {
      const std::optional<double> place = PlaceOf(mode, i, in, out, sizes.scales[a]);
      const std::optional<int64_t> pixel = place ? NearestTo(*place, rounding, in) : std::nullopt;
      if (!pixel) n.Refuse(StrCat("it takes pixels by \"", Printable(mode), "\" and \"", Printable(rounding), "\""));
      if (*pixel != PixelOfLayer(grid, i, in, out)) return false;
    }
  }
  return true;
}

void ReadNearest(ImportNode& n, const Sizes& sizes, const std::string& mode) {
  for (const Grid grid : {Grid::kPlain, Grid::kHalfPixel, Grid::kAligned}) {
    if (!TakesSame(n, grid, sizes, mode)) continue;
    LayerParameter layer = LayerOf("ResizeNearestNeighbor");
    SetFields(sizes.out, grid, *layer.mutable_resize_nearest_neighbor_param());
    return n.Give(layer, {n.In(0)});
  }
  n.Refuse("no layer takes the same pixels");
}

void ReadResize(ImportNode& n) {
  const NodeAttributes a = n.attributes();
  const Ints& x = n.x(0).dims;
  const std::string kind = a.Text("mode", "nearest");
  const std::string mode = a.Text("coordinate_transformation_mode", "half_pixel");
  if (a.Int("antialias", 0) != 0) n.Refuse("it smooths what it makes smaller");
  if (a.Text("keep_aspect_ratio_policy", "stretch") != "stretch") n.Refuse("it keeps the aspect ratio");
  const Sizes sizes = SizesOf(n);
  if (sizes.out == x) return GiveBlob(n, n.In(0));
  if (x.size() != 4 || sizes.out[0] != x[0] || sizes.out[1] != x[1]) n.Refuse("it resizes more than planes [N,C,H,W]");
  if (kind == "nearest") return ReadNearest(n, sizes, mode);
  if (kind != "linear") n.Refuse(StrCat("its mode is \"", Printable(kind), "\""));
  LayerParameter layer = LayerOf("ResizeBilinear");
  const bool is_one = mode == "pytorch_half_pixel" && (sizes.out[2] == 1 || sizes.out[3] == 1);
  const bool is_half = mode == "half_pixel" || mode == "half_pixel_symmetric" || mode == "pytorch_half_pixel";
  if (is_one || (!is_half && mode != "align_corners" && mode != "asymmetric"))
    n.Refuse(StrCat("it takes pixels by \"", Printable(mode), "\""));
  const Grid grid = is_half ? Grid::kHalfPixel : mode == "align_corners" ? Grid::kAligned : Grid::kPlain;
  SetFields(sizes.out, grid, *layer.mutable_resize_bilinear_param());
  n.Give(layer, {n.In(0)});
}

}  // namespace

OnnxImportOp ImportResize() {
  return {.types = {"Resize"},
          .read = ReadResize,
          .idle = {"cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"}};
}

}  // namespace moka

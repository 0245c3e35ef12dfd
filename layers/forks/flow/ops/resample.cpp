// FlowNet's resizing of planes without gradient (Ilg et al., arXiv 1612.01925). "nearest", "linear" and "cubic" take
// the place of pixel (i, j) to be x = j fx + fy/2 - 1/2, y = i fy + fx/2 - 1/2 with f the ratio of the sizes, the
// halves changed over as in FlowNet, and weigh the pixels around by a filter, which antialias widens to a pixel of the
// result when shrinking. "mean" has aligned corners and a filter as wide as two pixels of the result; NaNs have no
// weight, and the result is NaN where they would have had more than half of it.
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

struct Tap {
  int64_t at;
  double weight;
};

double Triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

double Cubic(double x) {
  x = std::abs(x);
  if (x <= 1) return x * x * (1.5 * x - 2.5) + 1;
  return x < 2 ? x * (x * (-0.5 * x + 2.5) - 4) + 2 : 0;
}

// Returns the taps that make up pixel `to` of one axis, of `size` pixels before and `top` after; `other` is the other
// axis' ratio.
std::vector<Tap> ResampleTapsOf(const std::string& filter, bool antialias, int64_t to, int64_t size, int64_t top,
                                double other) {
  const double ratio = static_cast<double>(size) / static_cast<double>(top);
  if (filter == "mean") {
    const double scale = static_cast<double>(size - 1) / static_cast<double>(top - 1);
    const double place = static_cast<double>(to) / static_cast<double>(top - 1) * static_cast<double>(size - 1);
    const auto middle = static_cast<int64_t>(std::round(place));
    const auto radius = static_cast<int64_t>(std::ceil(scale));
    std::vector<Tap> taps;
    for (int64_t i = std::max<int64_t>(middle - radius, 0); i <= std::min(middle + radius, size - 1); ++i) {
      taps.push_back({i, Triangle((static_cast<double>(i) - place) / scale)});
    }
    return taps;
  }
  const double place = static_cast<double>(to) * ratio + other / 2 - 0.5;
  const auto middle = static_cast<int64_t>(std::round(place));
  if (filter == "nearest") return {{std::clamp<int64_t>(middle, 0, size - 1), 1}};
  const bool is_cubic = filter == "cubic";
  const double narrow = antialias ? 1 / ratio : 1;
  const auto radius = ratio < 1 ? int64_t{2} : static_cast<int64_t>(std::ceil((is_cubic ? 4 : 2) / narrow));
  std::vector<Tap> taps;
  for (int64_t i = std::max<int64_t>(middle - radius, 0); i <= std::min(middle + radius, size - 1); ++i) {
    const double x = narrow * (place - static_cast<double>(i));
    taps.push_back({i, is_cubic ? Cubic(x) : Triangle(x)});
  }
  return taps;
}

std::vector<TensorType> InferResample(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("resample", in, 1, 1);
  CheckFloat("resample", "x", in[0]);
  const Shape& x = in[0].shape;
  const Shape size = ShapeAttribute("resample", attributes, "size");
  const std::string& filter = attributes.String("filter");
  const bool is_known = filter == "nearest" || filter == "linear" || filter == "cubic" || filter == "mean";
  const int64_t least = filter == "mean" ? 2 : 1;
  if (x.rank() != 4 || x.Count() < 1 || size.rank() != 2 || !is_known ||
      std::min({x[2], x[3], size[0], size[1]}) < least || std::max({x[2], x[3], size[0], size[1]}) > INT32_MAX) {
    throw Error(ErrorKind::kConfig,
                StrCat("resample: planes of [N,C,H,W] by a filter \"", filter, "\" have sides of ", least,
                       " pixels at least before and after, found ", x.ToString(), " and ", size.ToString()));
  }
  return {PlainType(in[0].dtype, x.With(2, size[0]).With(3, size[1]))};
}

// One pixel.
double Weighed(const double* plane, int64_t width, const std::vector<Tap>& rows, const std::vector<Tap>& columns,
               bool skips_nan) {
  double sum = 0;
  double weights = 0;
  double missing = 0;
  for (const Tap& row : rows) {
    for (const Tap& column : columns) {
      const double x = plane[row.at * width + column.at];
      const double weight = row.weight * column.weight;
      if (skips_nan && std::isnan(x)) {
        missing += weight;
        continue;
      }
      sum += weight * x;
      weights += weight;
    }
  }
  if (skips_nan && missing > weights / 2) return std::numeric_limits<double>::quiet_NaN();
  return weights == 0 ? 0 : sum / weights;
}

void ResampleReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Shape& y = out[0].type.shape;
  const std::string& filter = attributes.String("filter");
  const bool antialias = attributes.Bool("antialias") && (x[2] > y[2] || x[3] > y[3]);
  const double ratios[] = {static_cast<double>(x[2]) / static_cast<double>(y[2]),
                           static_cast<double>(x[3]) / static_cast<double>(y[3])};
  std::vector<std::vector<Tap>> rows;
  std::vector<std::vector<Tap>> columns;
  for (int64_t i = 0; i < y[2]; ++i) rows.push_back(ResampleTapsOf(filter, antialias, i, x[2], y[2], ratios[1]));
  for (int64_t j = 0; j < y[3]; ++j) columns.push_back(ResampleTapsOf(filter, antialias, j, x[3], y[3], ratios[0]));
  size_t to = 0;
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    const double* const from = in[0].values.data() + plane * x[2] * x[3];
    for (const auto& row : rows) {
      for (const auto& column : columns) out[0].values[to++] = Weighed(from, x[3], row, column, filter == "mean");
    }
  }
}

std::vector<OpCase> ResampleCases() {
  const auto make = [](const char* name, const char* filter, Ints size, bool antialias) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 2, 5, 6})},
                  .attributes = {{"filter", std::string(filter)}, {"size", std::move(size)}, {"antialias", antialias}}};
  };
  return {make("nearest", "nearest", {3, 9}, false),       make("linear", "linear", {2, 3}, true),
          make("linear_larger", "linear", {10, 12}, true), make("cubic", "cubic", {3, 3}, false),
          make("cubic_wide", "cubic", {2, 9}, true),       make("mean", "mean", {3, 2}, false)};
}

}  // namespace

OpDef ResampleOp() {
  return {.name = "resample",
          .doc = "x [N,C,H,W] -> y [N,C,h,w] with planes resized to `size`, as FlowNet does; no gradient.",
          .attributes = {{"filter", std::string("linear"), "nearest, linear, cubic or mean"},
                         {"size", {}, "height and width of y"},
                         {"antialias", true, "linear and cubic: the filter is as wide as a pixel of y when shrinking"}},
          .infer = InferResample,
          .reference = ResampleReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kRare,
          .cases = ResampleCases};
}

}  // namespace moka

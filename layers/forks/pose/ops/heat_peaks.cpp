// Peaks of heat maps: pixels above a threshold and above their eight neighbours, each placed at the centre of mass of
// the 7 x 7 pixels around it.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kHeatPeaksOp = "heat_peaks";
constexpr int64_t kReach = 3;  // pixels on each side that the centre of mass looks at

struct Map {
  const double* values;
  int64_t height;
  int64_t width;

  double At(int64_t y, int64_t x) const { return values[y * width + x]; }
  bool IsPeak(int64_t y, int64_t x, double threshold) const {
    const double value = At(y, x);
    if (!(value > threshold)) return false;
    for (int64_t dy = -1; dy <= 1; ++dy) {
      for (int64_t dx = -1; dx <= 1; ++dx) {
        if ((dy != 0 || dx != 0) && !(value > At(y + dy, x + dx))) return false;
      }
    }
    return true;
  }
  // (x, y, score) of the peak there. Row and column 0, and rows from the width on, are left out, as in the original.
  void Write(int64_t y, int64_t x, double* row) const {
    double mass = 0;
    double sum_x = 0;
    double sum_y = 0;
    for (int64_t i = std::max<int64_t>(y - kReach, 1); i <= std::min({y + kReach, height - 1, width - 1}); ++i) {
      for (int64_t j = std::max<int64_t>(x - kReach, 1); j <= std::min(x + kReach, width - 1); ++j) {
        const double value = At(i, j);
        if (!(value > 0)) continue;
        mass += value;
        sum_x += value * static_cast<double>(j);
        sum_y += value * static_cast<double>(i);
      }
    }
    // A peak below 0 (of a negative threshold) may have nothing positive around it: it stays where it is.
    row[0] = mass > 0 ? sum_x / mass : static_cast<double>(x);
    row[1] = mass > 0 ? sum_y / mass : static_cast<double>(y);
    row[2] = At(y, x);
  }
};

std::vector<TensorType> InferHeatPeaks(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kHeatPeaksOp, in, 1, 1);
  CheckFloat(kHeatPeaksOp, "x", in[0]);
  const Shape& x = in[0].shape;
  const int64_t parts = a.Int("parts");
  const int64_t peaks = a.Int("peaks");
  if (x.rank() != 4 || parts < 1 || parts > x[1] || peaks < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kHeatPeaksOp, ": x must be [N,C,H,W] with at least ", parts,
                                           " maps and peaks at least ", "1, found ", x.ToString(), " and ", peaks));
  }
  return {PlainType(in[0].dtype, {x[0], parts, peaks + 1, 3})};
}

void HeatPeaksReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Shape& y = out[0].type.shape;
  const double threshold = a.Float("threshold");
  const int64_t most = a.Int("peaks");
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t c = 0; c < y[1]; ++c) {
      const Map map{in[0].values.data() + (n * x[1] + c) * x[2] * x[3], x[2], x[3]};
      double* const rows = out[0].values.data() + (n * y[1] + c) * y[2] * 3;
      int64_t count = 0;
      for (int64_t i = 1; i + 1 < x[2]; ++i) {
        for (int64_t j = 1; j + 1 < x[3]; ++j) {
          if (!map.IsPeak(i, j, threshold)) continue;
          if (count < most) map.Write(i, j, rows + (count + 1) * 3);
          ++count;
        }
      }
      rows[0] = static_cast<double>(count);
    }
  }
}

std::vector<OpCase> HeatPeaksCases() {
  const auto attributes = [](double threshold, int64_t parts, int64_t peaks) {
    return Attributes{{"threshold", threshold}, {"parts", parts}, {"peaks", peaks}};
  };
  return {{"all", {Float32({2, 2, 9, 12})}, attributes(0.1, 2, 20)},
          {"few", {Float32({1, 3, 12, 8})}, attributes(0.0, 2, 2)}};
}

}  // namespace

OpDef HeatPeaksOp() {
  return {.name = "heat_peaks",
          .doc =
              "x [N,C,H,W] -> [N,parts,peaks+1,3]: for each of the first maps (count, 0, 0), then (x, y, score) of its "
              "peaks; unused rows are 0.",
          .attributes = {{"threshold", std::nullopt, "peaks are above it"},
                         {"parts", std::nullopt, "maps looked at"},
                         {"peaks", std::nullopt, "peaks of a map that are kept"}},
          .infer = InferHeatPeaks,
          .reference = HeatPeaksReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kPeaks,
          .cases = HeatPeaksCases};
}

}  // namespace moka

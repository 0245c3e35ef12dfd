// Maps of one image at several scales, each resized with Catmull and Rom's cubic, and their mean. Item n is padded by
// a border that the scale start_scale - n * scale_gap leaves; what lies between is resized.
#include <array>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kCubicMeanOp = "cubic_mean";

struct CubicMeanTaps {
  std::array<int64_t, 4> at{};
  std::array<double, 4> weights{};
};

// Pixels of a border on each side.
int64_t Border(const Attributes& a, int64_t pixels, int64_t item) {
  const double part = 1 - a.Float("start_scale") + static_cast<double>(item) * a.Float("scale_gap");
  return static_cast<int64_t>(std::floor(static_cast<double>(pixels / 2) * part));
}

// Where output i of `outputs` is read among `pixels` with that border. A place before the first pixel is extrapolated,
// as in the original.
CubicMeanTaps CubicMeanTapsOf(int64_t i, int64_t outputs, int64_t pixels, int64_t border) {
  const int64_t inner = pixels - 2 * border;
  const double ratio = static_cast<double>(inner) / static_cast<double>(outputs);
  const double offset = static_cast<double>(outputs) / static_cast<double>(inner) / 2 - 0.5;
  const double place = (static_cast<double>(i) - offset) * ratio;
  constexpr double kSlack = 1e-5;
  const auto low = std::max<int64_t>(static_cast<int64_t>(place + kSlack), 0);
  const int64_t after = std::min(low + 1, inner - 1);
  CubicMeanTaps taps;
  taps.at = {std::max<int64_t>(low - 1, 0) + border, low + border, after + border,
             std::min(after + 1, inner - 1) + border};
  const double d = place - static_cast<double>(low);
  taps.weights = {((-0.5 * d + 1) * d - 0.5) * d, (1.5 * d - 2.5) * d * d + 1, ((-1.5 * d + 2) * d + 0.5) * d,
                  (0.5 * d - 0.5) * d * d};
  return taps;
}

std::vector<TensorType> InferCubicMean(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kCubicMeanOp, in, 1, 1);
  CheckFloat(kCubicMeanOp, "x", in[0]);
  const Shape& x = in[0].shape;
  const int64_t height = a.Int("height");
  const int64_t width = a.Int("width");
  if (x.rank() != 4 || height < 1 || width < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kCubicMeanOp, ": x must be [N,C,H,W] and the size at least 1, found ",
                                           x.ToString(), " and ", height, " x ", width));
  }
  for (int64_t n = 0; n < x[0]; ++n) {
    const int64_t rows = Border(a, x[2], n);
    const int64_t columns = Border(a, x[3], n);
    if (rows >= 0 && columns >= 0 && 2 * rows < x[2] && 2 * columns < x[3]) continue;
    throw Error(ErrorKind::kConfig, StrCat(kCubicMeanOp, ": start_scale and scale_gap leave item ", n, " of ",
                                           x.ToString(), " borders of ", rows, " rows and ", columns, " columns"));
  }
  return {PlainType(in[0].dtype, {1, x[1], height, width})};
}

void CubicMeanReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Shape& y = out[0].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  const double share = 1 / static_cast<double>(x[0]);
  for (int64_t n = 0; n < x[0]; ++n) {
    std::vector<CubicMeanTaps> columns;
    for (int64_t j = 0; j < y[3]; ++j) columns.push_back(CubicMeanTapsOf(j, y[3], x[3], Border(a, x[3], n)));
    for (int64_t i = 0; i < y[2]; ++i) {
      const CubicMeanTaps rows = CubicMeanTapsOf(i, y[2], x[2], Border(a, x[2], n));
      for (int64_t c = 0; c < x[1]; ++c) {
        const double* const plane = in[0].values.data() + (n * x[1] + c) * x[2] * x[3];
        double* const row = out[0].values.data() + (c * y[2] + i) * y[3];
        for (int64_t j = 0; j < y[3]; ++j) {
          const CubicMeanTaps& taps = columns[static_cast<size_t>(j)];
          double sum = 0;
          for (size_t r = 0; r < 4; ++r) {
            for (size_t k = 0; k < 4; ++k) {
              sum += rows.weights[r] * taps.weights[k] * plane[rows.at[r] * x[3] + taps.at[k]];
            }
          }
          row[j] += share * sum;
        }
      }
    }
  }
}

std::vector<OpCase> CubicMeanCases() {
  const auto attributes = [](int64_t height, int64_t width, double start, double gap) {
    return Attributes{{"height", height}, {"width", width}, {"start_scale", start}, {"scale_gap", gap}};
  };
  return {{"larger", {Float32({1, 2, 4, 5})}, attributes(8, 10, 1, 0.1)},
          {"smaller", {Float32({1, 1, 9, 7})}, attributes(4, 5, 1, 0.1)},
          {"two_scales", {Float32({2, 1, 10, 12})}, attributes(20, 18, 1, 0.3)}};
}

}  // namespace

OpDef CubicMeanOp() {
  return {.name = "cubic_mean",
          .doc =
              "x [N,C,H,W] -> [1,C,height,width]: the items without their borders, resized by cubic interpolation, and "
              "their mean.",
          .attributes = {{"height", std::nullopt, "rows of y"},
                         {"width", std::nullopt, "columns of y"},
                         {"start_scale", 1.0, "scale of the first item: what is not its border"},
                         {"scale_gap", 0.1, "how much smaller each further item is"}},
          .infer = InferCubicMean,
          .reference = CubicMeanReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kPeaks,
          .cases = CubicMeanCases};
}

}  // namespace moka

// The term that assisted excitation (arXiv 1906.05388) adds to a map, in eric612's form: the mean of its channels where
// a box of the label is, times alpha = cos(pi/2 * runs / (3/4 max_iter)), at least 0. As in the fork only the first
// image of a batch is excited: the others' boxes are marked where nothing reads them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferBoxExcitation(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("box_excitation", in, 3, 3);
  CheckFloat("box_excitation", "mean", in[0]);
  CheckFloat("box_excitation", "label", in[1]);
  CheckShape("box_excitation", "runs", in[2].shape, Shape{}, "a scalar");
  const Shape& mean = in[0].shape;
  if (mean.rank() != 3 || mean.Count() < 1 || in[1].shape.Count() % (mean[0] * 5) != 0 ||
      attributes.Int("max_iter") < 0) {
    throw Error(ErrorKind::kConfig,
                StrCat("box_excitation: mean must be [N,H,W], label lists of 5 numbers for each image and max_iter not "
                       "negative, found ",
                       mean.ToString(), ", ", in[1].shape.ToString(), " and ", attributes.Int("max_iter")));
  }
  return {PlainType(in[0].dtype, mean)};
}

double Alpha(double runs, int64_t max_iter) {
  if (max_iter == 0) return 1;
  const double angle = runs / (static_cast<double>(max_iter) * 0.75) * std::numbers::pi / 2;
  return std::clamp(std::cos(angle), 0.0, 1.0);
}

// A side's first and last cell (exclusive) that a box covers.
std::pair<int64_t, int64_t> BoxExcitationCells(double center, double size, int64_t side) {
  const auto cells = static_cast<double>(side);
  const auto whole = [&](double x, int64_t low, int64_t high) {
    if (!(x >= static_cast<double>(low))) return low;
    return x >= static_cast<double>(high) ? high : static_cast<int64_t>(x);
  };
  const int64_t first = whole((center - size / 2) * cells, 0, side - 1);
  return {first, whole((center + size / 2) * cells + 0.95, first + 1, side)};
}

void BoxExcitationReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& mean = in[0].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  const double alpha = Alpha(in[2].values[0], attributes.Int("max_iter"));
  const auto numbers = static_cast<size_t>(in[1].type.shape.Count() / mean[0]);
  for (size_t i = 0; i + 5 <= numbers && in[1].values[i + 1] != 0; i += 5) {
    const double* box = in[1].values.data() + i;
    const auto [left, right] = BoxExcitationCells(box[1], box[3], mean[2]);
    const auto [top, bottom] = BoxExcitationCells(box[2], box[4], mean[1]);
    for (int64_t row = top; row < bottom; ++row) {
      for (int64_t column = left; column < right; ++column) {
        const auto at = static_cast<size_t>(row * mean[2] + column);
        out[0].values[at] = alpha * in[0].values[at];
      }
    }
  }
}

std::vector<OpCase> BoxExcitationCases() {
  const auto one = [](const char* name, int64_t max_iter) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 4, 5}), Float32({2, 1, 3, 5}), Float32({})},
                  .attributes = {{"max_iter", max_iter}},
                  .low = 0.1,
                  .high = 0.9,
                  .ranges = {{2, 3, 3}}};
  };
  return {one("early", 100), one("late", 4), one("unknown_length", 0)};
}

}  // namespace

OpDef BoxExcitationOp() {
  return {.name = "box_excitation",
          .doc =
              "(mean [N,H,W], label lists [N,..], runs) -> [N,H,W]: alpha * mean in the boxes of the first image, 0 "
              "elsewhere.",
          .attributes = {{"max_iter", int64_t{0}, "iterations of the training; 0: alpha is 1"}},
          .infer = InferBoxExcitation,
          .reference = BoxExcitationReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kCells,
          .cases = BoxExcitationCases};
}

}  // namespace moka

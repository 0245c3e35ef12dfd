// Where the pixels of images go (DetectNet): mirrored, resized (cubic, a = -0.75, edges repeated, no smoothing when
// they shrink: OpenCV's INTER_CUBIC), rotated into an image that holds all of it (bilinear; pixels whose four
// neighbours are not all inside are 0) and cropped, with 0 around.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/detectnet/ops/augmentation.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kAugmentPlaceOp = "augment_place";

std::vector<TensorType> InferAugmentPlace(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kAugmentPlaceOp, in, 2, 2);
  CheckFloat(kAugmentPlaceOp, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || x.Count() < 1 || a.Int("height") < 1 || a.Int("width") < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kAugmentPlaceOp, ": x must be [N,C,H,W] and the size at least 1, found ",
                                           x.ToString(), " and ", a.Int("height"), " x ", a.Int("width")));
  }
  CheckAugmentations(kAugmentPlaceOp, in[1], x[0]);
  return {PlainType(in[0].dtype, Shape{x[0], x[1], a.Int("height"), a.Int("width")})};
}

struct Plane {
  Plane(int64_t w, int64_t h) : width(w), height(h), values(static_cast<size_t>(w * h), 0.0) {}
  double& at(int64_t y, int64_t x) { return values[static_cast<size_t>(y * width + x)]; }
  double at(int64_t y, int64_t x) const { return values[static_cast<size_t>(y * width + x)]; }

  int64_t width;
  int64_t height;
  std::vector<double> values;
};

struct AugmentPlaceTaps {
  std::array<int64_t, 4> at{};
  std::array<double, 4> weights{};
};

// Where each of `outputs` pixels of a row is read among `inputs`.
std::vector<AugmentPlaceTaps> CubicTaps(int64_t inputs, int64_t outputs) {
  constexpr double kA = -0.75;
  const double ratio = static_cast<double>(inputs) / static_cast<double>(outputs);
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  std::vector<AugmentPlaceTaps> all(static_cast<size_t>(outputs));
  for (int64_t i = 0; i < outputs; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * ratio - 0.5;
    const double first = std::floor(place);
    const double d = place - first;
    AugmentPlaceTaps& taps = all[static_cast<size_t>(i)];
    for (int64_t k = 0; k < 4; ++k) {
      taps.at[static_cast<size_t>(k)] = std::clamp<int64_t>(static_cast<int64_t>(first) + k - 1, 0, inputs - 1);
    }
    taps.weights[0] = ((kA * (d + 1) - 5 * kA) * (d + 1) + 8 * kA) * (d + 1) - 4 * kA;
    taps.weights[1] = near(d);
    taps.weights[2] = near(1 - d);
    taps.weights[3] = 1 - taps.weights[0] - taps.weights[1] - taps.weights[2];
  }
  return all;
}

Plane Resized(const Plane& from, int64_t width, int64_t height) {
  const std::vector<AugmentPlaceTaps> columns = CubicTaps(from.width, width);
  const std::vector<AugmentPlaceTaps> rows = CubicTaps(from.height, height);
  Plane wide(width, from.height);
  for (int64_t y = 0; y < from.height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const AugmentPlaceTaps& taps = columns[static_cast<size_t>(x)];
      for (size_t k = 0; k < 4; ++k) wide.at(y, x) += taps.weights[k] * from.at(y, taps.at[k]);
    }
  }
  Plane to(width, height);
  for (int64_t y = 0; y < height; ++y) {
    const AugmentPlaceTaps& taps = rows[static_cast<size_t>(y)];
    for (int64_t x = 0; x < width; ++x) {
      for (size_t k = 0; k < 4; ++k) to.at(y, x) += taps.weights[k] * wide.at(taps.at[k], x);
    }
  }
  return to;
}

Plane Rotated(const Plane& from, float degrees) {
  const Rotation r = RotationOf(from.width, from.height, degrees);
  Plane to(r.width, r.height);
  for (int64_t i = 0; i < to.height; ++i) {
    for (int64_t j = 0; j < to.width; ++j) {
      const double dx = static_cast<double>(j) - r.moved_x;
      const double dy = static_cast<double>(i) - r.moved_y;
      const double x = r.cosine * dx + r.sine * dy + r.center_x;
      const double y = r.cosine * dy - r.sine * dx + r.center_y;
      const auto left = static_cast<int64_t>(std::floor(x));
      const auto top = static_cast<int64_t>(std::floor(y));
      if (left < 0 || top < 0 || left + 1 >= from.width || top + 1 >= from.height) continue;
      const double u = x - static_cast<double>(left);
      const double v = y - static_cast<double>(top);
      to.at(i, j) = (1 - v) * ((1 - u) * from.at(top, left) + u * from.at(top, left + 1)) +
                    v * ((1 - u) * from.at(top + 1, left) + u * from.at(top + 1, left + 1));
    }
  }
  return to;
}

// The plane from `values`, changed.
Plane Placed(const double* values, int64_t width, int64_t height, const PictureChange& augmentation) {
  Plane plane(width, height);
  for (int64_t y = 0; y < height; ++y) {
    const double* row = values + y * width;
    double* to = &plane.at(y, 0);
    augmentation.is_mirrored ? std::reverse_copy(row, row + width, to) : std::copy(row, row + width, to);
  }
  if (augmentation.width != width || augmentation.height != height) {
    plane = Resized(plane, augmentation.width, augmentation.height);
  }
  return augmentation.rotates() ? Rotated(plane, augmentation.rotation) : plane;
}

void AugmentPlaceReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const int64_t height = out[0].type.shape[2];
  const int64_t width = out[0].type.shape[3];
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t i = 0; i < x[0] * x[1]; ++i) {
    const PictureChange augmentation = AugmentationAt(in[1], i / x[1]);
    const Plane plane = Placed(in[0].values.data() + i * x[2] * x[3], x[3], x[2], augmentation);
    const int64_t begin = std::max<int64_t>(0, -augmentation.crop_x);
    const int64_t end = std::min(width, plane.width - augmentation.crop_x);
    for (int64_t y = 0; y < height; ++y) {
      const int64_t from = y + augmentation.crop_y;
      if (from < 0 || from >= plane.height || begin >= end) continue;
      const double* row = &plane.values[static_cast<size_t>(from * plane.width)];
      std::copy(row + begin + augmentation.crop_x, row + end + augmentation.crop_x,
                out[0].values.data() + (i * height + y) * width + begin);
    }
  }
}

std::vector<OpCase> AugmentPlaceCases() {
  const auto one = [](const char* name, std::initializer_list<int64_t> x, double low, double high) {
    return OpCase{.name = name,
                  .inputs = {Float32(x), Float32({2, 8})},
                  .attributes = {{"height", int64_t{9}}, {"width", int64_t{7}}},
                  .ranges = {{1, low, high}}};
  };
  return {one("small", {2, 3, 6, 8}, -3, 12), one("turned", {2, 1, 10, 5}, 4, 30),
          one("outside", {2, 2, 4, 4}, 20, 25)};
}

}  // namespace

OpDef AugmentPlaceOp() {
  return {.name = "augment_place",
          .doc =
              "(x [N,C,H,W], augmentations [N,8]) -> [N,C,height,width]: the images mirrored, resized, rotated and "
              "cropped as their rows say; 0 where there is no image.",
          .attributes = {{"height", {}, "of the crop, pixels"}, {"width", {}, "of the crop, pixels"}},
          .infer = InferAugmentPlace,
          .reference = AugmentPlaceReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kAugments,
          .cases = AugmentPlaceCases};
}

}  // namespace moka

// gabor, Intel's: lambda * exp(-(x^2 + y^2) / (2 sigma^2)) * cos(omega * (x cos theta - y sin theta) + phi) for x and y
// from -1 to 1 over the kernel, times a factor for each of the three colours. The parameters of each filter are chosen
// by hand for the first layers of four nets; angles are given here in units of pi.
#include "proto/nets/filler_patterns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "core/text.h"

namespace moka {
namespace {

using std::numbers::pi;

struct Gabor {
  double lambda = 1;
  double sigma = 1;
  double omega = 0;
  double theta = 0;
  double phi = 0;
  std::array<double, 3> color = {1, 1, 1};
};

// Filters up to `end` that differ in their direction alone: theta = (k mod period) * step + offset. Their omega is
// that of the largest kernel, half its side, over `slowness`.
struct Fan {
  int64_t end;
  double lambda;
  double sigma;
  double slowness;
  int64_t period;
  double step;
  double offset;
  double phi;
  std::array<double, 3> color;
};

// Grey waves, eight a direction, whose frequency falls and width grows; then blobs of two signs.
struct Opening {
  int64_t waves;  // the end of the waves
  double lambda;
  double sigma;         // of the narrowest wave
  double turn;          // from a direction to the next
  int64_t blobs_begin;  // blobs of `sizes` sizes, from here
  int64_t blobs_end;
  int64_t sizes;
};

struct Family {
  int64_t filters;
  int64_t side;
  std::optional<Opening> opening;
  std::span<const Fan> fans;
  std::optional<double> sigma;  // of all filters
};

constexpr Fan kCifar[] = {
    {8, 0.5, 0.6, 1, 8, 1.0 / 8, 0, 0, {1, 1, 1}},
    {12, 0.5, 0.6, 2, 6, 1.0 / 6, 1.0 / 12 - 1.0 / 3, 0, {1, 1, 1}},
    {14, 0.5, 0.6, 2, 6, 1.0 / 6, 1.0 / 12 + 2.0 / 3, 0, {1, 1, 1}},
    {15, 0.5, 0.75, 8, 1, 0, 0, 0, {1, -1, 1}},
    {16, 0.5, 0.75, 8, 1, 0, 0, 1, {1, -1, 1}},
    {20, 0.5, 0.6, 4, 4, 0.5, 0.375, 0.5, {1, 1, 1}},
    {24, 0.5, 0.6, 4, 4, 0.5, 0.375, 0.5, {1, 0, -1}},
    {28, 0.5, 0.6, 4, 4, 0.5, 0.375, 0.5, {-1, 1, 1}},
    {30, 0.5, 0.6, 4, 2, 0.5, 0.125, 0.5, {-1, 1, -1}},
    {32, 0.5, 0.6, 4, 2, 0.5, 0.375, 0.5, {1, 1, 0}},
};

constexpr Fan kGoogLeNet[] = {
    {40, 0.5, 0.45, 1, 8, 1.0 / 8, 0, 1, {1, 1, 1}},
    {48, 2.0 / 3, 1, 12, 8, 1, 1.0 / 8, 0.5, {1, 0.1, -0.5}},
    {56, 2.0 / 3, 1, 12, 8, 0.25, 1.0 / 32, 0.5, {-0.5, 0.1, 1}},
    {60, 1, 1, 12, 8, 0.5, 1.0 / 8, 0.5, {0.25, -1, 1}},
    {64, 2.0 / 3, 1, 12, 8, 0.5, 1.0 / 8, 0.5, {-1, -1, 1}},
};

constexpr Fan kAlexNet[] = {
    {60, 1.0 / 3 / 1.5, 0.75, 8, 4, 0.5, 1.0 / 8, 0.5, {-1, 1, -0.5}},
    {64, 1.0 / 3 / 3, 2, 8, 4, 0.5, 1.0 / 8, 0.5, {1, -0.5, -0.75}},
    {72, 1.0 / 3 / 1.5, 0.75, 4, 8, 0.25, 1.0 / 32, 0.5, {1, 0.1, -0.75}},
    {80, 1.0 / 3 / 1.5, 1, 12, 8, 0.25, 1.0 / 32, 0.5, {-0.5, 0.1, 1}},
    {88, 1.0 / 3 / 2.5, 1, 8, 8, 0.25, 1.0 / 32, 0.5, {-1, -1, 1}},
    {92, 1.0 / 3, 0.6, 16, 4, 0.5, 1.0 / 16, 0.5, {1, 1, 1}},
    {96, 1.0 / 3 / 4, 0.75, 4, 8, 0.25, 1.0 / 32, 0.5, {-1, -1, 1}},
};

constexpr Opening kSevenTurns{32, 1, 0.4, 0.25, 40, 46, 3};
constexpr Opening kEightTurns{48, 1.0 / 3, 0.5, 1.0 / 6, 48, 56, 4};

const std::array<Family, 4>& Families() {
  static const std::array<Family, 4> families = {{{32, 5, {}, kCifar, {}},
                                                  {64, 3, kSevenTurns, kGoogLeNet, 1},
                                                  {64, 7, kSevenTurns, kGoogLeNet, {}},
                                                  {96, 11, kEightTurns, kAlexNet, {}}}};
  return families;
}

const Family* FindFamily(const Shape& shape) {
  for (const Family& family : Families()) {
    if (shape[0] == family.filters && shape[2] == family.side) return &family;
  }
  return nullptr;
}

std::optional<Gabor> Opened(const Opening& opening, double half, int64_t k) {
  const auto real = [](int64_t i) { return static_cast<double>(i); };
  if (k < opening.waves) {
    const double slow = real(k % 8);
    return Gabor{.lambda = opening.lambda / (1 + slow / 8),
                 .sigma = opening.sigma + 0.2 * slow / 8,
                 .omega = half / (1 + slow / 2),
                 .theta = real(k / 8) * opening.turn,
                 .phi = real(k % 2) + 0.375};
  }
  if (k < opening.blobs_begin || k >= opening.blobs_end) return {};
  const int64_t from_first = k - opening.blobs_begin;
  const double size = real(from_first % opening.sizes);
  // Three sizes begin with a negative blob, four with a positive one.
  const int64_t sign = from_first / opening.sizes + opening.sizes % 2;
  return Gabor{.lambda = opening.lambda / (1 + size / 2),
               .sigma = 1 / (2.5 - size / 2),
               .omega = 0.25,
               .phi = real(sign % 2),
               .color = {0.25, -1, 1}};
}

Gabor FilterOf(const Family& family, int64_t k) {
  const double half = static_cast<double>(family.side - 1) / 2;
  Gabor gabor;
  if (const auto opened = family.opening ? Opened(*family.opening, half, k) : std::nullopt) {
    gabor = *opened;
  } else {
    const Fan& fan = *std::ranges::find_if(family.fans, [&](const Fan& f) { return k < f.end; });
    gabor = {.lambda = fan.lambda,
             .sigma = fan.sigma,
             .omega = half / fan.slowness,
             .theta = static_cast<double>(k % fan.period) * fan.step + fan.offset,
             .phi = fan.phi,
             .color = fan.color};
  }
  if (family.sigma) gabor.sigma = *family.sigma;
  return gabor;
}

void FillGabor(const Shape& shape, std::span<float> values) {
  const Family& family = *FindFamily(shape);
  const int64_t side = family.side;
  auto value = values.begin();
  for (int64_t k = 0; k < family.filters; ++k) {
    const Gabor g = FilterOf(family, k);
    for (const double color : g.color) {
      for (int64_t i = 0; i < side * side; ++i) {
        const double x = 2 * static_cast<double>(i % side) / static_cast<double>(side - 1) - 1;
        const int64_t row = i / side;
        const double y = 2 * static_cast<double>(row) / static_cast<double>(side - 1) - 1;
        const double along = x * std::cos(g.theta * pi) - y * std::sin(g.theta * pi);
        const double bell = std::exp(-(x * x + y * y) / (2 * g.sigma * g.sigma));
        *value++ = static_cast<float>(color * g.lambda * bell * std::cos((along * g.omega + g.phi) * pi));
      }
    }
  }
}

// The Laplacian of a Gaussian, in Garg's sign and with his pi.
void FillLaplacianOfGaussian(double sigma, int64_t side, std::span<float> values) {
  const int64_t middle = (side - 1) / 2;
  const auto center = static_cast<double>(middle);
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(static_cast<int64_t>(i) % side) - center;
    const double y = static_cast<double>(static_cast<int64_t>(i) / side % side) - center;
    const double distance = (x * x + y * y) / (2 * sigma * sigma);
    values[i] = static_cast<float>(-std::exp(-distance) * (1 - distance) / (3.1415 * std::pow(sigma, 4)));
  }
}

constexpr std::array<float, 9> kEdgeX = {0, -0.5F, 0, 0, 0, 0, 0, 0.5F, 0};
constexpr std::array<float, 9> kEdgeY = {0, 0, 0, -0.5F, 0, 0.5F, 0, 0, 0};
constexpr std::array<float, 9> kLaplacian = {1.0F / 6, 2.0F / 3, 1.0F / 6, 2.0F / 3, -10.0F / 3,
                                             2.0F / 3, 1.0F / 6, 2.0F / 3, 1.0F / 6};

}  // namespace

bool IsPatternFiller(const std::string& type) {
  return type == "EdgeX" || type == "EdgeY" || type == "Laplacian" || type == "LoG" || type == "gabor";
}

std::string PatternFault(const FillerParameter& filler, const Shape& shape) {
  const std::string& type = filler.type();
  const std::string found = StrCat(", the parameter's shape is ", shape.ToString());
  if (filler.sparse() >= 0) return StrCat(type, " filler: sparse is for gaussian");
  if (shape.rank() != 4 || shape[2] != shape[3]) return StrCat(type, " filler: needs a square 2-D kernel", found);
  if (type == "gabor") {
    const bool is_known = shape[1] == 3 && FindFamily(shape) != nullptr;
    return is_known ? "" : StrCat("gabor filler: is for [32,3,5,5], [64,3,3,3], [64,3,7,7] and [96,3,11,11]", found);
  }
  if (type == "LoG") {
    if (shape[2] % 2 != 1) return StrCat("LoG filler: needs a kernel of odd size", found);
    return filler.std() > 0 ? "" : StrCat("LoG filler: std must be above 0, found ", filler.std());
  }
  return shape[2] == 3 ? "" : StrCat(type, " filler: needs a kernel of 3 x 3", found);
}

void FillPattern(const FillerParameter& filler, const Shape& shape, std::span<float> values) {
  const std::string& type = filler.type();
  if (type == "gabor") return FillGabor(shape, values);
  if (type == "LoG") return FillLaplacianOfGaussian(static_cast<double>(filler.std()), shape[2], values);
  const std::array<float, 9>& kernel = type == "EdgeX" ? kEdgeX : type == "EdgeY" ? kEdgeY : kLaplacian;
  for (size_t i = 0; i < values.size(); ++i) values[i] = kernel[i % kernel.size()];
}

}  // namespace moka

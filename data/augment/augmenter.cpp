// Each change draws from a part of the sample's random stream that no other reaches, so that adding one to a net does
// not alter what the others draw.
#include "data/augment/augmenter.h"

#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/augment/color.h"
#include "data/augment/elastic.h"
#include "data/augment/erase.h"

namespace moka {
namespace {

// Each change draws from a part of the sample's stream that nothing else reaches: the crop's and mirror's numbers lie
// at its start, and no change needs as many as these.
constexpr uint64_t kNumbersOfAChange = uint64_t{1} << 40U;

// ImageNet's colours, in parts of 255 (Krizhevsky et al., 2012, as published with fb.resnet.torch): deviations along
// the principal components, and the components, each R, G, B.
constexpr std::array<float, 3> kImageNetValues = {0.2175F, 0.0188F, 0.0045F};
constexpr std::array<float, 9> kImageNetVectors = {-0.5675F, -0.5808F, -0.5836F, 0.7192F, -0.0045F,
                                                   -0.6948F, 0.4009F,  -0.8140F, 0.4203F};

double Either(RandomStream& random, float most) { return random.Uniform(double{-most}, double{most}); }

AffineMap DrawAffine(const AffineChange& affine, int64_t width, int64_t height, RandomStream& random) {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  AffineParts parts;
  parts.degrees = Either(random, affine.degrees());
  // Whole pixels: a mere move stays sharp.
  parts.dx = std::round(Either(random, affine.translate()) * w);
  parts.dy = std::round(Either(random, affine.translate()) * h);
  parts.scale = random.Uniform(double{affine.scale_min()}, double{affine.scale_max()});
  parts.shear_x = std::tan(Either(random, affine.shear()) * std::acos(-1.0) / 180);
  return AffineAbout({w / 2, h / 2}, parts);
}

void ChangeColor(const ColorChange& color, RandomStream& random, Image& picture) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  const auto factor = [&](float most) {
    return static_cast<float>(random.Uniform(std::max(0.0, 1.0 - double{most}), 1.0 + double{most}));
  };
  for (const int kind : order) {
    if (kind == 0 && color.brightness() > 0) ScaleBrightness(factor(color.brightness()), picture);
    if (kind == 1 && color.contrast() > 0) ScaleContrast(factor(color.contrast()), picture);
    if (kind == 2 && color.saturation() > 0) ScaleSaturation(factor(color.saturation()), picture);
    if (kind == 3 && color.hue() > 0) TurnHue(static_cast<float>(Either(random, color.hue())), picture);
  }
}

void ChangeLighting(const LightingChange& lighting, RandomStream& random, Image& picture) {
  if (picture.channels != 3) {
    throw Error(ErrorKind::kBadData, {}, "transform_param.augment.lighting needs pictures of 3 channels, found 1",
                "set force_color, or take lighting out");
  }
  std::array<double, 3> rgb{};
  for (int component = 0; component < 3; ++component) {
    const auto c = static_cast<size_t>(component);
    const float value = lighting.value().empty() ? kImageNetValues.at(c) : lighting.value(component);
    const double amount = random.Normal(0, double{lighting.std()}) * double{value} * 255;
    for (size_t i = 0; i < rgb.size(); ++i) {
      const size_t at = 3 * c + i;
      const float part = lighting.vector().empty() ? kImageNetVectors.at(at) : lighting.vector(static_cast<int>(at));
      rgb.at(i) += amount * double{part};
    }
  }
  AddToChannels({rgb[2], rgb[1], rgb[0]}, picture);
}

// The picture and all that follows it.
void Move(const PictureMap& geometry, uint8_t fill, Image& picture, const Followers& followers, Image& scratch) {
  geometry.MovePicture(fill, picture, scratch);
  for (const auto& [mask, outside] : followers.masks) {
    Require(mask->width == picture.width && mask->height == picture.height, "Augmenter: a mask has its picture's size");
    geometry.MoveMask(outside, *mask, scratch);
  }
  if (followers.boxes != nullptr) {
    for (Annotated& a : *followers.boxes) a.box = geometry.BoundsOf(a.box, picture.width, picture.height);
    followers.cut_boxes();
  }
  if (followers.points == nullptr) return;
  const auto w = static_cast<double>(picture.width);
  const auto h = static_cast<double>(picture.height);
  for (KeyPoint& point : *followers.points) {
    const PicturePoint p = geometry.ResultOf({double{point.x} * w, double{point.y} * h});
    point.x = static_cast<float>(p.x / w);
    point.y = static_cast<float>(p.y / h);
    if (!(p.x >= 0 && p.x < w && p.y >= 0 && p.y < h)) point.Leave();
  }
}

void ApplyPolicy(const AugmentPolicy& policy, RandomStream& random, Image& picture, const Followers& followers,
                 AugmentScratch& scratch) {
  DrawPolicy(policy, picture.width, picture.height, random, scratch.steps);
  for (const PolicyStep& step : scratch.steps) {
    if (const std::optional<AffineMap> map = MapOf(step, picture.width, picture.height)) {
      Move(PictureMap(*map), static_cast<uint8_t>(policy.fill()), picture, followers, scratch.other);
    } else {
      ChangeColors(step, picture, scratch.other);
    }
  }
}

}  // namespace

Augmenter::Augmenter(const TransformationParameter& param, Phase phase, uint64_t seed) : seed_(seed) {
  if (phase != TRAIN) return;
  for (int i = 0; i < param.augment_size(); ++i) {
    const Augmentation& change = param.augment(i);
    (change.has_erase() ? erasings_ : changes_).push_back({change, i});
  }
}

RandomStream Augmenter::StreamFor(const SampleId& id, int place) const {
  return {seed_, StreamOf(id), kNumbersOfAChange * static_cast<uint64_t>(place + 1)};
}

void Augmenter::Change(const SampleId& id, Image& picture, const Followers& followers, AugmentScratch& scratch) const {
  for (const Listed& listed : changes_) {
    const Augmentation& change = listed.change;
    RandomStream random = StreamFor(id, listed.place);
    if (!(random.Uniform() < double{change.probability()})) continue;
    if (change.has_affine()) {
      const PictureMap geometry(DrawAffine(change.affine(), picture.width, picture.height, random));
      Move(geometry, static_cast<uint8_t>(change.affine().fill()), picture, followers, scratch.other);
    } else if (change.has_elastic()) {
      DrawElastic(change.elastic(), picture.width, picture.height, random, scratch.field);
      Move(PictureMap(scratch.field), 0, picture, followers, scratch.other);
    } else if (change.has_policy()) {
      ApplyPolicy(change.policy(), random, picture, followers, scratch);
    } else if (change.has_color()) {
      ChangeColor(change.color(), random, picture);
    } else if (change.has_lighting()) {
      ChangeLighting(change.lighting(), random, picture);
    }
  }
}

void Augmenter::Erase(const SampleId& id, const Shape& shape, std::span<float> sample) const {
  for (const Listed& listed : erasings_) {
    RandomStream random = StreamFor(id, listed.place);
    if (!(random.Uniform() < double{listed.change.probability()})) continue;
    const Erasing& erasing = listed.change.erase();
    const ImageWindow window = DrawErasing(erasing, shape[2], shape[1], random);
    EraseWindow(erasing, window, shape, random, sample);
  }
}

}  // namespace moka

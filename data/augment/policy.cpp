// The spaces and the tables of the published policies as data; a draw picks rows of them, and the changes are those of
// data/augment.
#include "data/augment/policy.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/augment/color.h"

namespace moka {
namespace {

// How strong each change is at most, in `steps` even steps from none.
struct Space {
  int steps = 31;
  double shear = 0.3;
  double translate_x = 0;  // pixels
  double translate_y = 0;
  double degrees = 30;
  double factor = 0.9;
  int bits = 4;  // taken away
};

Space SpaceOf(AugmentPolicy::Kind kind, int64_t width, int64_t height) {
  if (kind == AugmentPolicy::TRIVIAL_AUGMENT) {
    return {.shear = 0.99, .translate_x = 32, .translate_y = 32, .degrees = 135, .factor = 0.99, .bits = 6};
  }
  // The papers moved ImageNet's pictures of 331 pixels by up to 150.
  constexpr double kPart = 150.0 / 331.0;
  return {.steps = kind == AugmentPolicy::RAND_AUGMENT ? 31 : 10,
          .translate_x = kPart * static_cast<double>(width),
          .translate_y = kPart * static_cast<double>(height)};
}

bool HasSign(PolicyChange change) { return change >= PolicyChange::kShearX && change <= PolicyChange::kSharpness; }

// Step 0 is the weakest; posterising and solarising begin with all bits and the highest threshold.
double MagnitudeOf(const Space& space, PolicyChange change, int step) {
  const double part = static_cast<double>(step) / (space.steps - 1);
  switch (change) {
    case PolicyChange::kShearX:
    case PolicyChange::kShearY: return part * space.shear;
    case PolicyChange::kTranslateX: return part * space.translate_x;
    case PolicyChange::kTranslateY: return part * space.translate_y;
    case PolicyChange::kRotate: return part * space.degrees;
    case PolicyChange::kBrightness:
    case PolicyChange::kColor:
    case PolicyChange::kContrast:
    case PolicyChange::kSharpness: return part * space.factor;
    case PolicyChange::kPosterize: return 8 - std::round(part * space.bits);
    case PolicyChange::kSolarize: return 255 * (1 - part);
    default: return 0;
  }
}

// The mark in the tables of a change that has no strength.
constexpr int kNone = 0;
using C = PolicyChange;

constexpr std::array<PolicyPair, 25> kImageNetPairs = {{
    {{{C::kPosterize, 0.4F, 8}, {C::kRotate, 0.6F, 9}}},
    {{{C::kSolarize, 0.6F, 5}, {C::kAutoContrast, 0.6F, kNone}}},
    {{{C::kEqualize, 0.8F, kNone}, {C::kEqualize, 0.6F, kNone}}},
    {{{C::kPosterize, 0.6F, 7}, {C::kPosterize, 0.6F, 6}}},
    {{{C::kEqualize, 0.4F, kNone}, {C::kSolarize, 0.2F, 4}}},
    {{{C::kEqualize, 0.4F, kNone}, {C::kRotate, 0.8F, 8}}},
    {{{C::kSolarize, 0.6F, 3}, {C::kEqualize, 0.6F, kNone}}},
    {{{C::kPosterize, 0.8F, 5}, {C::kEqualize, 1.0F, kNone}}},
    {{{C::kRotate, 0.2F, 3}, {C::kSolarize, 0.6F, 8}}},
    {{{C::kEqualize, 0.6F, kNone}, {C::kPosterize, 0.4F, 6}}},
    {{{C::kRotate, 0.8F, 8}, {C::kColor, 0.4F, 0}}},
    {{{C::kRotate, 0.4F, 9}, {C::kEqualize, 0.6F, kNone}}},
    {{{C::kEqualize, 0.0F, kNone}, {C::kEqualize, 0.8F, kNone}}},
    {{{C::kInvert, 0.6F, kNone}, {C::kEqualize, 1.0F, kNone}}},
    {{{C::kColor, 0.6F, 4}, {C::kContrast, 1.0F, 8}}},
    {{{C::kRotate, 0.8F, 8}, {C::kColor, 1.0F, 2}}},
    {{{C::kColor, 0.8F, 8}, {C::kSolarize, 0.8F, 7}}},
    {{{C::kSharpness, 0.4F, 7}, {C::kInvert, 0.6F, kNone}}},
    {{{C::kShearX, 0.6F, 5}, {C::kEqualize, 1.0F, kNone}}},
    {{{C::kColor, 0.4F, 0}, {C::kEqualize, 0.6F, kNone}}},
    {{{C::kEqualize, 0.4F, kNone}, {C::kSolarize, 0.2F, 4}}},
    {{{C::kSolarize, 0.6F, 5}, {C::kAutoContrast, 0.6F, kNone}}},
    {{{C::kInvert, 0.6F, kNone}, {C::kEqualize, 1.0F, kNone}}},
    {{{C::kColor, 0.6F, 4}, {C::kContrast, 1.0F, 8}}},
    {{{C::kEqualize, 0.8F, kNone}, {C::kEqualize, 0.6F, kNone}}},
}};

constexpr std::array<PolicyPair, 25> kCifarPairs = {{
    {{{C::kInvert, 0.1F, kNone}, {C::kContrast, 0.2F, 6}}},
    {{{C::kRotate, 0.7F, 2}, {C::kTranslateX, 0.3F, 9}}},
    {{{C::kSharpness, 0.8F, 1}, {C::kSharpness, 0.9F, 3}}},
    {{{C::kShearY, 0.5F, 8}, {C::kTranslateY, 0.7F, 9}}},
    {{{C::kAutoContrast, 0.5F, kNone}, {C::kEqualize, 0.9F, kNone}}},
    {{{C::kShearY, 0.2F, 7}, {C::kPosterize, 0.3F, 7}}},
    {{{C::kColor, 0.4F, 3}, {C::kBrightness, 0.6F, 7}}},
    {{{C::kSharpness, 0.3F, 9}, {C::kBrightness, 0.7F, 9}}},
    {{{C::kEqualize, 0.6F, kNone}, {C::kEqualize, 0.5F, kNone}}},
    {{{C::kContrast, 0.6F, 7}, {C::kSharpness, 0.6F, 5}}},
    {{{C::kColor, 0.7F, 7}, {C::kTranslateX, 0.5F, 8}}},
    {{{C::kEqualize, 0.3F, kNone}, {C::kAutoContrast, 0.4F, kNone}}},
    {{{C::kTranslateY, 0.4F, 3}, {C::kSharpness, 0.2F, 6}}},
    {{{C::kBrightness, 0.9F, 6}, {C::kColor, 0.2F, 8}}},
    {{{C::kSolarize, 0.5F, 2}, {C::kInvert, 0.0F, kNone}}},
    {{{C::kEqualize, 0.2F, kNone}, {C::kAutoContrast, 0.6F, kNone}}},
    {{{C::kEqualize, 0.2F, kNone}, {C::kEqualize, 0.6F, kNone}}},
    {{{C::kColor, 0.9F, 9}, {C::kEqualize, 0.6F, kNone}}},
    {{{C::kAutoContrast, 0.8F, kNone}, {C::kSolarize, 0.2F, 8}}},
    {{{C::kBrightness, 0.1F, 3}, {C::kColor, 0.7F, 0}}},
    {{{C::kSolarize, 0.4F, 5}, {C::kAutoContrast, 0.9F, kNone}}},
    {{{C::kTranslateY, 0.9F, 9}, {C::kTranslateY, 0.7F, 9}}},
    {{{C::kAutoContrast, 0.9F, kNone}, {C::kSolarize, 0.8F, 3}}},
    {{{C::kEqualize, 0.8F, kNone}, {C::kInvert, 0.1F, kNone}}},
    {{{C::kTranslateY, 0.7F, 9}, {C::kAutoContrast, 0.9F, kNone}}},
}};

// Either direction of a change that has two.
PolicyStep WithSign(const Space& space, PolicyChange change, int step, RandomStream& random) {
  const double magnitude = MagnitudeOf(space, change, step);
  const bool turns = HasSign(change) && (random.Bits() & 1U) != 0;
  return {change, turns ? -magnitude : magnitude};
}

}  // namespace

std::string_view NameOf(PolicyChange change) {
  static constexpr std::array<std::string_view, kPolicyChanges> kNames = {
      "Identity", "ShearX",    "ShearY",    "TranslateX", "TranslateY",   "Rotate",   "Brightness", "Color",
      "Contrast", "Sharpness", "Posterize", "Solarize",   "AutoContrast", "Equalize", "Invert"};
  return kNames.at(static_cast<size_t>(change));
}

std::span<const PolicyPair> PairsOf(AugmentPolicy::Kind kind) {
  Require(kind == AugmentPolicy::AUTO_AUGMENT_IMAGENET || kind == AugmentPolicy::AUTO_AUGMENT_CIFAR10,
          "PairsOf: an AutoAugment policy");
  return kind == AugmentPolicy::AUTO_AUGMENT_IMAGENET ? kImageNetPairs : kCifarPairs;
}

void DrawPolicy(const AugmentPolicy& policy, int64_t width, int64_t height, RandomStream& random,
                std::vector<PolicyStep>& steps) {
  steps.clear();
  const Space space = SpaceOf(policy.kind(), width, height);
  const auto any_change = [&] { return static_cast<PolicyChange>(random.Below(kPolicyChanges - 1)); };
  switch (policy.kind()) {
    case AugmentPolicy::RAND_AUGMENT:
      for (uint32_t i = 0; i < policy.count(); ++i) {
        steps.push_back(WithSign(space, any_change(), static_cast<int>(policy.magnitude()), random));
      }
      return;
    case AugmentPolicy::TRIVIAL_AUGMENT: {
      const PolicyChange change = any_change();
      const auto step = static_cast<int>(random.Below(static_cast<uint64_t>(space.steps)));
      steps.push_back(WithSign(space, change, step, random));
      return;
    }
    default: break;
  }
  const std::span<const PolicyPair> pairs = PairsOf(policy.kind());
  for (const PolicyPart& part : pairs[random.Below(pairs.size())]) {
    const bool happens = random.Uniform() < double{part.probability};
    const PolicyStep step = WithSign(space, part.change, part.strength, random);
    if (happens) steps.push_back(step);
  }
}

std::optional<AffineMap> MapOf(const PolicyStep& step, int64_t width, int64_t height) {
  const PicturePoint center{static_cast<double>(width) / 2, static_cast<double>(height) / 2};
  const double m = step.magnitude;
  switch (step.change) {
    // Sheared about the upper left corner, moved by whole pixels, as torchvision does both.
    case PolicyChange::kShearX: return AffineAbout({}, {.shear_x = m});
    case PolicyChange::kShearY: return AffineAbout({}, {.shear_y = m});
    case PolicyChange::kTranslateX: return AffineAbout({}, {.dx = std::trunc(m)});
    case PolicyChange::kTranslateY: return AffineAbout({}, {.dy = std::trunc(m)});
    case PolicyChange::kRotate: return AffineAbout(center, {.degrees = -m});
    default: return std::nullopt;
  }
}

void ChangeColors(const PolicyStep& step, Image& image, Image& scratch) {
  const auto factor = static_cast<float>(1 + step.magnitude);
  switch (step.change) {
    case PolicyChange::kBrightness: return ScaleBrightness(factor, image);
    case PolicyChange::kColor: return ScaleSaturation(factor, image);
    case PolicyChange::kContrast: return ScaleContrast(factor, image);
    case PolicyChange::kSharpness: return ScaleSharpness(factor, image, scratch);
    case PolicyChange::kPosterize: return Posterize(static_cast<int>(step.magnitude), image);
    case PolicyChange::kSolarize: return Solarize(step.magnitude, image);
    case PolicyChange::kAutoContrast: return StretchContrast(image);
    case PolicyChange::kEqualize: return Equalize(image);
    case PolicyChange::kInvert: return Invert(image);
    default: return;
  }
}

}  // namespace moka

// The published policies: which of fifteen changes a picture gets, and how strong. Magnitudes and tables are those of
// torchvision, which follows the papers' own code: arXiv 1805.09501 (AutoAugment), 1909.13719 (RandAugment), 2103.10158
// (TrivialAugment, the wide space).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "data/augment/geometry.h"
#include "proto/moka.pb.h"

namespace moka {

// RandAugment and TrivialAugment draw from all but the last.
enum class PolicyChange : uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
};
inline constexpr int kPolicyChanges = 15;
// torchvision's name: "ShearX".
std::string_view NameOf(PolicyChange change);

// A change and its strength: a tangent (shears), pixels to the right or down, degrees against the clock (rotation), a
// factor less 1 (brightness to sharpness), the bits that are kept (posterise) or the threshold, 0..255 (solarise); 0
// for changes without one.
struct PolicyStep {
  PolicyChange change = PolicyChange::kIdentity;
  double magnitude = 0;
};

// AutoAugment's: both changes are made one after the other, each with its probability.
struct PolicyPart {
  PolicyChange change = PolicyChange::kIdentity;
  float probability = 0;
  int strength = 0;  // 0..9 of ten even steps
};
using PolicyPair = std::array<PolicyPart, 2>;
// Requires: an AutoAugment policy.
std::span<const PolicyPair> PairsOf(AugmentPolicy::Kind kind);

// The steps for a picture of this size.
void DrawPolicy(const AugmentPolicy& policy, int64_t width, int64_t height, RandomStream& random,
                std::vector<PolicyStep>& steps);

// The map from the result to the picture, of changes of shape.
std::optional<AffineMap> MapOf(const PolicyStep& step, int64_t width, int64_t height);
// Makes a change of colours; others leave the picture.
void ChangeColors(const PolicyStep& step, Image& image, Image& scratch);

}  // namespace moka

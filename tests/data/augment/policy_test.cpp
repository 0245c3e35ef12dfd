// Each policy draws all of torchvision's changes and magnitudes and no others.
#include "data/augment/policy.h"

#include <cmath>
#include <map>
#include <set>

#include "data/augment/augmenter.h"
#include "tests/data/augment/augment_fixture.h"

namespace moka {
namespace {

using Policies = AugmentGoldens;

PolicyChange ChangeNamed(const std::string& name) {
  for (int i = 0; i < kPolicyChanges; ++i) {
    if (NameOf(static_cast<PolicyChange>(i)) == name) return static_cast<PolicyChange>(i);
  }
  ADD_FAILURE() << name;
  return {};
}

// Colours are Pillow's bytes; bilinear geometry may differ by one.
TEST_F(Policies, EachChangeIsTorchvisions) {
  const auto fill = goldens_.at("fill").get<uint8_t>();
  std::set<std::string> seen;
  for (const auto& golden : goldens_.at("steps")) {
    const auto name = golden.at("change").get<std::string>();
    const PolicyStep step{ChangeNamed(name), golden.at("magnitude").get<double>()};
    Image image = Picture(golden.at("channels").get<int64_t>());
    Image scratch;
    const auto map = MapOf(step, image.width, image.height);
    if (map) PictureMap(*map).MovePicture(fill, image, scratch);
    ChangeColors(step, image, scratch);
    EXPECT_LE(Distance(image.pixels, Bytes(golden.at("pixels"))), map ? 1 : 0) << name << " " << step.magnitude;
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), 15U);
}

TEST_F(Policies, AutoAugmentsPairsAreThePapers) {
  for (const auto& [name, golden] : goldens_.at("pairs").items()) {
    AugmentPolicy::Kind kind = {};
    ASSERT_TRUE(AugmentPolicy::Kind_Parse(name, &kind));
    const auto pairs = PairsOf(kind);
    ASSERT_EQ(pairs.size(), golden.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      for (size_t k = 0; k < 2; ++k) {
        const auto& expected = golden.at(i).at(k);
        EXPECT_EQ(NameOf(pairs[i][k].change), expected.at(0).get<std::string>()) << name << i;
        EXPECT_FLOAT_EQ(pairs[i][k].probability, expected.at(1).get<float>()) << name << i;
        EXPECT_EQ(pairs[i][k].strength, std::max(expected.at(2).get<int>(), 0)) << name << i;
      }
    }
  }
}

// All (change, magnitude) that a policy draws in many tries are those of torchvision's space, and all of them occur.
TEST_F(Policies, MagnitudesAreTorchvisions) {
  constexpr int64_t kHeight = 200;
  constexpr int64_t kWidth = 120;
  const auto rounded = [](double m) { return std::lround(m * 1000); };
  for (const std::string kind : {"RAND_AUGMENT", "TRIVIAL_AUGMENT"}) {
    std::set<std::pair<std::string, int64_t>> expected;
    for (const auto& [name, golden] : goldens_.at("spaces").at(kind).items()) {
      const auto values = golden.at("values").get<std::vector<double>>();
      for (size_t i = 0; i < values.size(); ++i) {
        if (kind == "RAND_AUGMENT" && values.size() > 1 && i != 11) continue;  // the magnitude asked for
        expected.insert({name, rounded(values[i])});
        if (golden.at("signed").get<bool>()) expected.insert({name, rounded(-values[i])});
      }
    }
    AugmentPolicy policy = FieldsOf<AugmentPolicy>("kind: " + kind);
    if (kind == "RAND_AUGMENT") policy.set_magnitude(11);
    std::set<std::pair<std::string, int64_t>> seen;
    std::vector<PolicyStep> steps;
    for (uint64_t i = 0; i < 20000; ++i) {
      RandomStream random(1, i);
      DrawPolicy(policy, kWidth, kHeight, random, steps);
      ASSERT_EQ(steps.size(), kind == "RAND_AUGMENT" ? 2U : 1U);
      for (const PolicyStep& step : steps) seen.insert({std::string(NameOf(step.change)), rounded(step.magnitude)});
    }
    EXPECT_EQ(seen, expected) << kind;
  }
}

// Pair 3 of CIFAR-10's table: (ShearY 0.5, TranslateY 0.7). Signs are fair, the two are drawn apart.
TEST_F(Policies, AutoAugmentDrawsPairsByTheirProbabilities) {
  const auto policy = FieldsOf<AugmentPolicy>("kind: AUTO_AUGMENT_CIFAR10");
  const auto& space = goldens_.at("spaces").at("AUTO_AUGMENT_IMAGENET");
  const double shear = space.at("ShearY").at("values").at(8).get<double>();
  const double move = space.at("TranslateY").at("values").at(9).get<double>();
  std::map<std::string, int> counts;
  std::vector<PolicyStep> steps;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    RandomStream random(2, i);
    DrawPolicy(policy, 120, 200, random, steps);
    std::string names;
    for (const PolicyStep& step : steps) names += std::string(NameOf(step.change)) + " ";
    if (names == "ShearY TranslateY ") {
      EXPECT_NEAR(std::abs(steps[0].magnitude), shear, 1e-5);
      EXPECT_NEAR(std::abs(steps[1].magnitude), move, 1e-3);
      names += steps[0].magnitude < 0 ? "left" : "right";
    }
    ++counts[names];
  }
  // One pair in 25; both changes happen in 0.5 * 0.7 of the draws, half of them to each side.
  const double both = kDraws / 25.0 * 0.5 * 0.7 / 2;
  EXPECT_NEAR(counts["ShearY TranslateY left"], both, 5 * std::sqrt(both));
  EXPECT_NEAR(counts["ShearY TranslateY right"], both, 5 * std::sqrt(both));
  // Alone: 0.5 * 0.3 of this pair, and ShearY 0.2 with Posterize 0.3 of pair 5.
  const double alone = kDraws / 25.0 * (0.5 * 0.3 + 0.2 * 0.7);
  EXPECT_NEAR(counts["ShearY "], alone, 5 * std::sqrt(alone));
}

}  // namespace
}  // namespace moka

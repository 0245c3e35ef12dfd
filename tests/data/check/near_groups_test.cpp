// Hashes of looks against what they promise, and their groups against a comparison of each with each.
#include "data/check/near_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/data/check/scene_fixture.h"

namespace moka {
namespace {

Image Slope(bool rises) {
  Image image;
  image.Resize(90, 80, 1);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const auto x = static_cast<uint8_t>(i % 90);
    image.pixels[i] = rises ? static_cast<uint8_t>(2 * x) : static_cast<uint8_t>(2 * (89 - x));
  }
  return image;
}

Image Decoded(const std::string& file) {
  Image image;
  ImageDecoder().Decode(file, {}, image);
  return image;
}

TEST(PerceptualHash, BitsSayWhichOfTwoCellsIsBrighter) {
  const PerceptualHash rising = PerceptualHashOf(Slope(true));
  const PerceptualHash falling = PerceptualHashOf(Slope(false));
  EXPECT_EQ(rising.bits, ~uint64_t{0});
  EXPECT_EQ(falling.bits, 0U);
  EXPECT_EQ(HammingDistance(rising.bits, falling.bits), 64);
  // Column c of 8 averages the pixels 11.25 c to 11.25 (c + 1) of 0, 2, .. 178.
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_NEAR(rising.cells.at(c), 22.5 * static_cast<double>(c) + 10.25, 1.5) << c;
    EXPECT_EQ(rising.cells.at(c), rising.cells.at(56 + c));
  }
  EXPECT_FALSE(rising.is_flat);
}

TEST(PerceptualHash, KnowsAPictureInOtherSizesAndFiles) {
  std::vector<PerceptualHash> looks;
  for (uint64_t seed = 0; seed < 60; ++seed) looks.push_back(PerceptualHashOf(Scene(seed, 160, 120)));
  for (uint64_t seed = 0; seed < looks.size(); ++seed) {
    const PerceptualHash& look = looks[seed];
    EXPECT_TRUE(AreNear(look, PerceptualHashOf(Scene(seed, 100, 75)))) << seed;
    EXPECT_TRUE(AreNear(look, PerceptualHashOf(Decoded(EncodeJpeg(Scene(seed, 160, 120), 70))))) << seed;
    Image brighter = Scene(seed, 160, 120);
    for (uint8_t& value : brighter.pixels) value = static_cast<uint8_t>(std::min(255, value + 12));
    EXPECT_TRUE(AreNear(look, PerceptualHashOf(brighter))) << seed;
    for (uint64_t other = seed + 1; other < looks.size(); ++other) {
      EXPECT_FALSE(AreNear(look, looks[other])) << seed << " " << other;
    }
  }
}

TEST(PerceptualHash, PicturesOfOneShadeAreLikeNone) {
  Image image;
  image.Resize(50, 40, 3);
  std::ranges::fill(image.pixels, uint8_t{90});
  const PerceptualHash flat = PerceptualHashOf(image);
  EXPECT_TRUE(flat.is_flat);
  EXPECT_FALSE(AreNear(flat, flat));
  Image pixel;
  pixel.Resize(1, 1, 1);
  EXPECT_TRUE(PerceptualHashOf(pixel).is_flat);
}

// Hashes whose cells are alike, so that bits alone decide.
std::vector<PerceptualHash> HashesOf(const std::vector<uint64_t>& bits) {
  std::vector<PerceptualHash> hashes;
  for (const uint64_t b : bits) {
    PerceptualHash hash;
    hash.bits = b;
    for (size_t i = 0; i < 64; ++i) hash.cells.at(i) = static_cast<uint8_t>(4 * i);
    hashes.push_back(hash);
  }
  return hashes;
}

std::vector<std::vector<int64_t>> GroupsByAllPairs(const std::vector<PerceptualHash>& hashes) {
  std::vector<size_t> group(hashes.size());
  for (size_t i = 0; i < hashes.size(); ++i) group[i] = i;
  for (size_t i = 0; i < hashes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (group[i] == group[j] || !AreNear(hashes[i], hashes[j])) continue;
      std::ranges::replace(group, std::max(group[i], group[j]), std::min(group[i], group[j]));
    }
  }
  std::map<size_t, std::vector<int64_t>> members;
  for (size_t i = 0; i < hashes.size(); ++i) members[group[i]].push_back(static_cast<int64_t>(i));
  std::vector<std::vector<int64_t>> groups;
  for (auto& [root, places] : members) {
    if (places.size() > 1) groups.push_back(std::move(places));
  }
  return groups;
}

TEST(NearGroups, EveryBitIsInOneBand) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> bits(100);
  for (uint64_t& b : bits) b = random() & random();
  const HashBands bands = BandsFor(HashesOf(bits));
  uint64_t seen = 0;
  for (const auto& band : bands) {
    for (const uint8_t place : band) seen |= uint64_t{1} << place;
    EXPECT_EQ(BandOf(~uint64_t{0}, band), 0xFFFF);
    EXPECT_EQ(BandOf(0, band), 0);
  }
  EXPECT_EQ(seen, ~uint64_t{0});
}

TEST(NearGroups, AreThoseOfAComparisonOfAllPairs) {
  std::mt19937_64 random(7);
  std::vector<uint64_t> bits;
  for (int i = 0; i < 1200; ++i) bits.push_back(random());
  for (int i = 0; i < 600; ++i) {  // with 1 to 10 bits changed: some too far
    uint64_t b = bits[random() % 1200];
    for (int k = 0; k <= i % 10; ++k) b ^= uint64_t{1} << random() % 64;
    bits.push_back(b);
  }
  std::ranges::shuffle(bits, random);
  const std::vector<PerceptualHash> hashes = HashesOf(bits);
  const NearGroups found = FindNearGroups(hashes);
  EXPECT_EQ(found.groups, GroupsByAllPairs(hashes));
  EXPECT_GT(found.groups.size(), 200U);
  EXPECT_EQ(found.cut, 0);
}

// Most bits are the same in all, as in drawn digits.
TEST(NearGroups, OfHashesThatAreMuchAlikeToo) {
  std::mt19937_64 random(9);
  std::vector<uint64_t> bits;
  for (int i = 0; i < 1500; ++i) bits.push_back(random() & 0x00003C7E7E3C0000ULL);
  const std::vector<PerceptualHash> hashes = HashesOf(bits);
  EXPECT_EQ(FindNearGroups(hashes).groups, GroupsByAllPairs(hashes));
}

TEST(NearGroups, WorkIsBoundedAndSaysSo) {
  std::vector<PerceptualHash> hashes = HashesOf(std::vector<uint64_t>(3000, 0x1234567890ABCDEFULL));
  for (size_t i = 0; i < hashes.size(); ++i) {  // equal bits, but each with a mean of its own colour
    hashes[i].mean_color = {static_cast<uint8_t>(i % 3 * 100), 0, 0};
  }
  const NearGroups all = FindNearGroups(hashes);
  EXPECT_EQ(all.cut, 0);
  ASSERT_EQ(all.groups.size(), 3U);
  EXPECT_EQ(all.groups[1][1], 4);
  EXPECT_EQ(FindNearGroups(hashes, 1).cut, 3000 - 1025);
}

TEST(NearGroups, OfNoneAndOfOne) {
  EXPECT_TRUE(FindNearGroups({}).groups.empty());
  EXPECT_TRUE(FindNearGroups(HashesOf({5})).groups.empty());
  EXPECT_EQ(FindNearGroups(HashesOf({5, 5})).groups, (std::vector<std::vector<int64_t>>{{0, 1}}));
}

}  // namespace
}  // namespace moka

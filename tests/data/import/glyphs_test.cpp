// Glyphs are a function of seed and index, of all digits alike, and visible.
#include "data/import/glyphs.h"

#include <array>
#include <numeric>
#include <set>

#include "tests/data/data_fixture.h"

namespace moka {
namespace {

TEST(Glyphs, SameSeedAndIndexGiveTheSamePicture) {
  Image a;
  Image b;
  EXPECT_EQ(DrawGlyph(3, 14, a), DrawGlyph(3, 14, b));
  EXPECT_EQ(DrawGlyph(3, 14, a), GlyphDigit(3, 14));
  EXPECT_EQ(a.pixels, b.pixels);
  DrawGlyph(4, 14, b);
  EXPECT_NE(a.pixels, b.pixels);
}

TEST(Glyphs, DigitsAreEvenAndVisible) {
  std::array<int, 10> counts{};
  std::set<std::string> pictures;
  Image image;
  for (uint64_t i = 0; i < 500; ++i) {
    ++counts[static_cast<size_t>(DrawGlyph(1, i, image))];
    ASSERT_EQ(image.pixels.size(), 784U);
    const int ink = std::accumulate(image.pixels.begin(), image.pixels.end(), 0);
    EXPECT_GT(ink, 5000);
    EXPECT_LT(ink, 100000);
    pictures.emplace(image.pixels.begin(), image.pixels.end());
  }
  EXPECT_EQ(pictures.size(), 500U);
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Gt(25), testing::Lt(80))));
}

}  // namespace
}  // namespace moka

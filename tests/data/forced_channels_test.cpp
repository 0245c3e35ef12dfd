// RecordData's pictures of one number of channels, whether they are files or stored as pixels.
#include "tests/data/record_fixture.h"

namespace moka {
namespace {

TEST_F(RecordLayers, ChannelsAreForcedOfFilesAndRawPictures) {
  const Image colour = Picture(12, 10, 3, 1);
  const Image grey = Picture(12, 10, 1, 2);
  WriteRecords({PictureRecord(colour), RawOf(PictureRecord(colour)), PictureRecord(grey), RawOf(PictureRecord(grey))},
               "version: 1");
  Image luma = colour;
  ConvertChannels(1, luma);
  const auto samples = [&](const std::string& transform, const std::string& size = "") {
    const auto pipeline = Open("RecordData", Fields({"PICTURE"}, "transform_param { " + transform + " }", 4, size));
    const auto count = static_cast<size_t>(pipeline->types()[0].shape.Count()) / 4;
    const std::vector<float> values = Next(*pipeline)[0];
    std::vector<std::vector<float>> found;
    for (size_t i = 0; i < 4; ++i) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i * count);
      found.emplace_back(begin, begin + static_cast<ptrdiff_t>(count));
    }
    return found;
  };
  const std::vector<float> grey_plane(grey.pixels.begin(), grey.pixels.end());
  const auto forced_grey = samples("force_gray: true");
  EXPECT_EQ(forced_grey[1], std::vector<float>(luma.pixels.begin(), luma.pixels.end()));
  EXPECT_EQ(forced_grey[0], forced_grey[1]);
  EXPECT_EQ(forced_grey[2], grey_plane);
  EXPECT_EQ(forced_grey[3], grey_plane);
  const auto forced_colour = samples("force_color: true");
  std::vector<float> planes;
  for (size_t i = 0; i < 3UL * 120; ++i) planes.push_back(colour.pixels[i % 120 * 3 + i / 120]);
  EXPECT_EQ(forced_colour[0], planes);
  EXPECT_EQ(forced_colour[1], planes);
  EXPECT_EQ(forced_colour[2], forced_colour[3]);
  ASSERT_EQ(forced_colour[3].size(), 3U * 120);
  for (size_t i = 0; i < 3UL * 120; ++i) ASSERT_EQ(forced_colour[3][i], grey_plane[i % 120]) << i;
  for (const char* forced : {"force_gray: true crop_size: 8", "force_color: true crop_size: 8"}) {
    const auto resized = samples(forced, "height: 9 width: 14");
    EXPECT_EQ(resized[0], resized[1]) << forced;
    EXPECT_EQ(resized[2], resized[3]) << forced;
  }
  EXPECT_EQ(samples(""), forced_colour) << "one of them is coloured";
}

}  // namespace
}  // namespace moka

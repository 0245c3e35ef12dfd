// Pictures of one number of channels, whether they are files or stored as pixels.
#include "core/text.h"
#include "tests/data/record_fixture.h"

namespace moka {
namespace {

TEST_F(RecordLayers, ChannelsAreForcedOfFilesAndRawPictures) {
  const Image color = Picture(12, 10, 3, 1);
  const Image gray = Picture(12, 10, 1, 2);
  WriteRecords({PictureRecord(color), RawOf(PictureRecord(color)), PictureRecord(gray), RawOf(PictureRecord(gray))},
               "version: 1");
  Image luma = color;
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
  const std::vector<float> gray_plane(gray.pixels.begin(), gray.pixels.end());
  const auto forced_gray = samples("force_gray: true");
  EXPECT_EQ(forced_gray[1], std::vector<float>(luma.pixels.begin(), luma.pixels.end()));
  EXPECT_EQ(forced_gray[0], forced_gray[1]);
  EXPECT_EQ(forced_gray[2], gray_plane);
  EXPECT_EQ(forced_gray[3], gray_plane);
  const auto forced_color = samples("force_color: true");
  std::vector<float> planes;
  for (size_t i = 0; i < 3UL * 120; ++i) planes.push_back(color.pixels[i % 120 * 3 + i / 120]);
  EXPECT_EQ(forced_color[0], planes);
  EXPECT_EQ(forced_color[1], planes);
  EXPECT_EQ(forced_color[2], forced_color[3]);
  ASSERT_EQ(forced_color[3].size(), 3U * 120);
  for (size_t i = 0; i < 3UL * 120; ++i) ASSERT_EQ(forced_color[3][i], gray_plane[i % 120]) << i;
  for (const char* forced : {"force_gray: true crop_size: 8", "force_color: true crop_size: 8"}) {
    const auto resized = samples(forced, "height: 9 width: 14");
    EXPECT_EQ(resized[0], resized[1]) << forced;
    EXPECT_EQ(resized[2], resized[3]) << forced;
  }
  EXPECT_EQ(samples(""), forced_color) << "one of them is coloured";
}

TEST_F(RecordLayers, ChannelsAreForcedOfListedPictures) {
  const Image color = Picture(6, 5, 3, 1);
  Write("a.png", EncodePng(color));
  Write("list.txt", "a.png 1\n");
  Write("numbers.txt", "a.png 1 2\n");
  Image luma = color;
  ConvertChannels(1, luma);
  const std::vector<float> gray(luma.pixels.begin(), luma.pixels.end());
  struct Case {
    std::string type;
    std::string before;
  };
  for (const auto& [type, before] :
       {Case{"ImageData", "top: 'a' top: 'b' image_data_param { source: 'list.txt' batch_size: 1 "},
        Case{"MultiLabelImageData",
             "top: 'a' top: 'b' multi_label_image_data_param { source: 'numbers.txt' batch_size: 1 label_num: 2 "}}) {
    const auto values = [&, type = type, before = before](const std::string& fields) {
      return Next(*Open(type, before + fields))[0];
    };
    EXPECT_EQ(values("} transform_param { force_gray: true }"), gray) << type;
    EXPECT_EQ(values("is_color: false } transform_param { force_gray: true }"), gray) << type;
    EXPECT_EQ(values("} transform_param { force_color: true }"), values("}")) << type;
    EXPECT_EQ(values("}").size(), 3 * gray.size()) << type;
    EXPECT_THAT(OpenError(type, before + "is_color: true } transform_param { force_gray: true }"),
                testing::HasSubstr("transform_param.force_gray is set, and"));
    EXPECT_THAT(OpenError(type, before + "is_color: false } transform_param { force_color: true }"),
                testing::HasSubstr("is_color is false; keep one"));
  }
}

// Whatever layer of files does not read the field says so.
TEST_F(RecordLayers, ForcedChannelsAreReadOrRefused) {
  WritePair();
  for (const auto& [type, field] :
       {std::pair{"DenseImageData", "dense_image_data_param"}, std::pair{"ImageLabelmapData", "image_data_param"},
        std::pair{"ImageSegData", "image_data_param"}}) {
    EXPECT_THAT(OpenError(type, StrCat("top: 'a' top: 'b' ", field,
                                       " { source: 'list.txt' root_folder: 'p/' batch_size: 1 } transform_param { "
                                       "force_gray: true }")),
                testing::HasSubstr("does not read transform_param.force_gray"))
        << type;
  }
}

}  // namespace
}  // namespace moka

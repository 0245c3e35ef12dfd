// Label pictures of every kind: the numbers that their writer meant, or an error.
#include "data/labels/class_picture.h"

#include "core/text.h"
#include "data/labels/sample_writing.h"
#include "tests/data/picture_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

class ClassPictures : public PictureLayers {
 protected:
  static std::string File(const std::string& name) {
    return ReadFile(std::filesystem::path(MOKA_SOURCE_DIR) / "tests/data/images" / name);
  }
  static std::vector<uint8_t> NumbersOf(const std::string& file) {
    ImageDecoder decoder;
    Image numbers;
    DecodeClassPicture(file, "label", decoder, numbers);
    EXPECT_EQ(numbers.channels, 1);
    return numbers.pixels;
  }
  static std::vector<uint8_t> DecodedAs(const std::string& file, ImageChannels channels) {
    ImageDecoder decoder;
    Image image;
    decoder.Decode(file, {.channels = channels}, image);
    return image.pixels;
  }
};

TEST_F(ClassPictures, PalettesGiveTheirIndicesAndGrayItsLevels) {
  for (const char* name : {"palette1.png", "palette8.png", "palette8_interlaced.png", "palette4_transparent.png"}) {
    const ValueMask indices = ReadValueMask(File(name));
    EXPECT_EQ(NumbersOf(File(name)), std::vector<uint8_t>(indices.values.begin(), indices.values.end())) << name;
  }
  for (const char* name : {"grey8.png", "grey4.png", "grey8.bmp", "grey.jpg"}) {
    EXPECT_EQ(NumbersOf(File(name)), DecodedAs(File(name), ImageChannels::kGray)) << name;
  }
  EXPECT_EQ(NumbersOf(File("rgb8.png")), DecodedAs(File("rgb8.png"), ImageChannels::kGray));
  EXPECT_THAT(ErrorOf([&] { NumbersOf(File("grey16.png")); }), HasSubstr("the label picture has class "));
}

TEST_F(ClassPictures, LayersOfPairsReadThemSo) {
  Image image;
  image.Resize(21, 13, 3);
  Write("p/image.png", EncodePng(image));
  Write("p/label.png", File("palette8.png"));
  Write("list.txt", "image.png label.png\n");
  const auto tops = Next(*Open("ImageSegData",
                               "top: 'a' top: 'b' top: 'c' image_data_param { source: 'list.txt' root_folder: 'p/' "
                               "label_type: PIXEL }"));
  const ValueMask indices = ReadValueMask(File("palette8.png"));
  EXPECT_EQ(tops[1], std::vector<float>(indices.values.begin(), indices.values.end()));
}

TEST_F(ClassPictures, NumbersInListsThatPixelsCannotHoldAreRefused) {
  Image image;
  image.Resize(4, 4, 3);
  Write("p/image.png", EncodePng(image));
  for (const auto& [label, is_kept] : {std::pair(0, true), {255, true}, {256, false}, {-1, false}}) {
    Write("list.txt", StrCat("image.png ", label, "\n"));
    const std::string fields =
        "top: 'a' top: 'b' top: 'c' image_data_param { source: 'list.txt' root_folder: 'p/' label_type: IMAGE }";
    if (is_kept) {
      EXPECT_EQ(Next(*Open("ImageSegData", fields))[1][0], static_cast<float>(label));
    } else {
      EXPECT_THAT(OpenError("ImageSegData", fields), HasSubstr(StrCat("is ", label, ", expected 0..255")));
    }
  }
}

}  // namespace
}  // namespace moka

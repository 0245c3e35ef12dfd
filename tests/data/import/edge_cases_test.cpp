// The public corpora of odd images, read where the environment variable MOKA_DATA names the folder of data sets.
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "core/text.h"
#include "data/files/packed_file.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

class EdgeCases : public DataTest {
 protected:
  // Name -> file of an archive in image-edge-cases.
  std::map<std::string, std::string> Members(const std::string& archive) const {
    std::map<std::string, std::string> members;
    for (ArchiveReader tar(data_ / "image-edge-cases" / archive); tar.Next();) {
      members[std::filesystem::path(tar.name()).filename().string()] = tar.Read();
    }
    return members;
  }
  void SetUp() override {
    const char* data = std::getenv("MOKA_DATA");  // NOLINT(concurrency-mt-unsafe): no other thread yet
    if (data == nullptr || !std::filesystem::is_directory(std::filesystem::path(data) / "image-edge-cases")) {
      GTEST_SKIP() << "MOKA_DATA names no folder with image-edge-cases";
    }
    data_ = data;
  }
  // The error text, or empty.
  static std::string Fault(const std::string& file, Image& image, ImageChannels channels = ImageChannels::kAsStored) {
    try {
      ImageDecoder().Decode(file, {.channels = channels}, image);
      return {};
    } catch (const Error& e) {
      return e.what();
    }
  }
  std::filesystem::path data_;
};

TEST_F(EdgeCases, PngSuiteDecodesAndItsBrokenFilesFail) {
  int good = 0;
  int broken = 0;
  for (const auto& [name, file] : Members("pngsuite.tar")) {
    if (!name.ends_with(".png")) continue;
    Image image;
    const std::string fault = Fault(file, image);
    if (name[0] == 'x') {
      broken += fault.empty() ? 0 : 1;
      EXPECT_NE(fault, "") << name;
    } else {
      good += fault.empty() ? 1 : 0;
      EXPECT_EQ(fault, "") << name;
    }
  }
  EXPECT_GT(good, 150);
  EXPECT_GE(broken, 13);
}

TEST_F(EdgeCases, ExifOrientationsShowOneUprightPicture) {
  std::map<std::string, Image> images;
  for (const auto& [name, file] : Members("exif_landscape.tar")) {
    if (!name.ends_with(".jpg")) continue;
    EXPECT_EQ(Fault(file, images[name]), "") << name;
    EXPECT_EQ(images[name].width, 1800) << name;
    EXPECT_EQ(images[name].height, 1200) << name;
  }
  ASSERT_GE(images.size(), 8U);
  const Image& first = images.begin()->second;
  for (const auto& [name, image] : images) {
    double difference = 0;
    for (size_t i = 0; i < first.pixels.size(); i += 101) {
      difference += std::abs(static_cast<double>(first.pixels[i]) - static_cast<double>(image.pixels[i]));
    }
    // Each was compressed anew in its own orientation, so the pixels are near, not equal.
    EXPECT_LT(difference / (static_cast<double>(first.pixels.size()) / 101), 12) << name;
  }
}

TEST_F(EdgeCases, EveryFileIsOpenCvsPictureOrIsRefused) {
  std::ifstream golden(StrCat(MOKA_SOURCE_DIR, "/tests/data/images/edge_cases.txt"));
  std::map<std::string, std::map<std::string, std::string>> archives;
  int lines = 0;
  for (std::string archive, name, found; golden >> archive >> name >> found; ++lines) {
    std::map<std::string, std::string>& members = archives[archive];
    if (members.empty()) members = Members(archive);
    ASSERT_TRUE(members.contains(name)) << archive << " " << name;
    Image image;
    const std::string fault = Fault(members[name], image, ImageChannels::kColor);
    if (found == "refused") {
      EXPECT_NE(fault, "") << name;
      continue;
    }
    ASSERT_EQ(fault, "") << name;
    std::string height;
    std::string crc;
    golden >> height >> crc;
    EXPECT_EQ(StrCat(image.width), found) << name;
    EXPECT_EQ(StrCat(image.height), height) << name;
    std::ostringstream text;
    text << std::hex << std::setfill('0') << std::setw(8)
         << crc32(0, image.pixels.data(), static_cast<uInt>(image.pixels.size()));
    EXPECT_EQ(text.str(), crc) << name;
  }
  EXPECT_EQ(lines, 188);
}

}  // namespace
}  // namespace moka

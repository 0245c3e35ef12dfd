// Files that a data layer reads, one list for each shape of line.
#include "data/files/layer_files.h"

#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::UnorderedElementsAre;

class LayerFilesTest : public DataTest {
 protected:
  std::vector<std::string> Found(const LayerParameter& layer) const {
    std::vector<std::string> names;
    for (const std::filesystem::path& file : FilesOfLayer(layer, folder()))
      names.push_back(std::filesystem::relative(file, folder()).string());
    return names;
  }
  std::filesystem::path folder() const { return At(""); }
};

TEST_F(LayerFilesTest, PicturesOfALineAndTheirLabels) {
  for (const char* name : {"in/img/1.jpg", "in/seg/1.png", "in/a b.jpg", "in/other.jpg"}) Write(name, "x");
  Write("list", "img/1.jpg seg/1.png\na b.jpg 3\nmissing.jpg 1\n");
  LayerParameter layer;
  layer.mutable_image_data_param()->set_source("list");
  layer.mutable_image_data_param()->set_root_folder("in/");
  EXPECT_THAT(Found(layer), UnorderedElementsAre("list", "in/img/1.jpg", "in/seg/1.png", "in/a b.jpg"));
}

TEST_F(LayerFilesTest, FramesOfAClip) {
  for (const char* name : {"clips/jump/1.jpg", "clips/jump/2.jpg", "clips/run/1.jpg"}) Write(name, "x");
  Write("list", "clips/jump 1 0\n");
  LayerParameter layer;
  layer.mutable_image_data_param()->set_source("list");
  EXPECT_THAT(Found(layer), UnorderedElementsAre("list", "clips/jump/1.jpg", "clips/jump/2.jpg"));
}

TEST_F(LayerFilesTest, AListWhoseFirstHundredLinesAreGone) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "gone" + std::to_string(i) + ".jpg 0\n";
  Write("list", text + "there.jpg 0\n");
  Write("there.jpg", "x");
  LayerParameter layer;
  layer.mutable_image_data_param()->set_source("list");
  EXPECT_THAT(Found(layer), UnorderedElementsAre("list", "there.jpg"));
}

}  // namespace
}  // namespace moka

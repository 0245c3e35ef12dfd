// ImageData: pictures that a list names.
#include "core/text.h"
#include "tests/data/pipeline/pipelines_fixture.h"

namespace moka {
namespace {

TEST_F(Pipelines, ImageDataReadsItsList) {
  for (int i = 0; i < 4; ++i) Write(StrCat("img/a ", i, ".png"), EncodePng(Gradient(20 + i, 10, 3)));
  Write("list.txt", "a 0.png 3\na 1.png 1\r\n\na 2.png -2\na 3.png 7");
  const std::string fields = "source: 'list.txt' root_folder: 'img/' batch_size: 4 new_height: 8 new_width: 9";
  const auto pipeline = OpenPipeline(
      Layer("name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { " + fields + " }"), Options());
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[4,3,8,9]");
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(3, 1, -2, 7));
  const auto gray =
      OpenPipeline(Layer("name: 'd' type: 'ImageData' top: 'data' image_data_param { shuffle: true is_color: false " +
                         fields + " }"),
                   Options());
  EXPECT_EQ(gray->types()[0].ToString(), "float32[4,1,8,9]");
  NextOf(*gray);
}

TEST_F(Pipelines, ImageListFaultsHaveTheirLine) {
  Write("list.txt", "a.png 1\nb.png\n");
  const LayerParameter layer = Layer("name: 'd' type: 'ImageData' top: 'x' image_data_param { source: 'list.txt' }");
  EXPECT_EQ(
      ErrorOf([&] { OpenPipeline(layer, Options()); }),
      StrCat(At("list.txt").string(), ":2: expected \"path label\" with a whole number as label, found \"b.png\""));
  Write("list.txt", "missing.png 1\n");
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(layer, Options()); }),
              testing::StartsWith("image \"missing.png\" (index 0) of "));
}

}  // namespace
}  // namespace moka

// Lists of pictures with several labels, and of pairs that stay together.
#include <set>

#include "core/text.h"
#include "data/pipeline/sampler.h"
#include "tests/data/picture_fixture.h"

namespace moka {
namespace {

class ListLayers : public PictureLayers {
 protected:
  // Pictures 0.png .. of one colour each, the number.
  void WritePictures(int count) const {
    for (int i = 0; i < count; ++i) {
      Image image;
      image.Resize(2, 2, 3);
      std::ranges::fill(image.pixels, static_cast<uint8_t>(i));
      Write(StrCat(i, ".png"), EncodePng(image));
    }
  }
};

TEST_F(ListLayers, SeveralLabelsALine) {
  WritePictures(3);
  Write("list.txt", "0.png 5 56 -1\n\n  1.png 0.5 1e2 3\n2.png 7 8 9\n");
  const auto drml = Open("MultilabelImageData",
                         "top: 'a' top: 'b' image_data_param { source: 'list.txt' batch_size: 2 multilabel_num: 3 }");
  EXPECT_EQ(drml->types()[1].ToString(), "float32[2,3,1,1]");
  const auto first = Next(*drml);
  EXPECT_EQ(first[0][0], 0.0F);
  EXPECT_EQ(first[0][12], 1.0F);
  EXPECT_THAT(first[1], testing::ElementsAre(5, 56, -1, 0.5F, 100, 3));
  EXPECT_THAT(Next(*drml)[1], testing::ElementsAre(7, 8, 9, 5, 56, -1));

  const std::string pgcnn =
      "top: 'a' top: 'b' multi_label_image_data_param { source: 'list.txt' batch_size: 2 label_num: 3 shuffle: true }";
  const auto mine = Open("MultiLabelImageData", pgcnn);
  EXPECT_EQ(mine->types()[1].ToString(), "float32[2,3]");
  std::set<float> seen;
  for (int i = 0; i < 3; ++i) {
    const auto tops = Next(*mine);
    seen.insert(tops[1].begin(), tops[1].end());
  }
  EXPECT_EQ(seen.size(), 9U);
  const auto again = Open("MultiLabelImageData", pgcnn);
  again->Seek(mine->position());
  EXPECT_EQ(Next(*again), Next(*mine));
}

TEST_F(ListLayers, LabelsThatDoNotFitAreErrors) {
  WritePictures(1);
  const auto with = [&](const std::string& list, const std::string& more = "multilabel_num: 2") {
    Write("list.txt", list);
    return OpenError("MultilabelImageData", "top: 'a' top: 'b' image_data_param { source: 'list.txt' " + more + " }");
  };
  EXPECT_THAT(with("0.png 1 2\n0.png 1\n"),
              testing::AllOf(testing::HasSubstr("list.txt:2"), testing::HasSubstr("2 labels, found 1")));
  EXPECT_THAT(with("0.png 1 2 3\n"), testing::HasSubstr("2 labels, found 3"));
  EXPECT_THAT(with("0.png 1 two\n"), testing::AllOf(testing::HasSubstr("list.txt:1"), testing::HasSubstr("\"two\"")));
  EXPECT_THAT(with("0.png 1 nan\n"), testing::HasSubstr("expected a number as label that a float holds"));
  EXPECT_THAT(with("none.png 1 2\n"), testing::HasSubstr("none.png"));
  EXPECT_THAT(with("\n"), testing::HasSubstr("the list is empty"));
  EXPECT_THAT(with("0.png 1 2\n", ""), testing::HasSubstr("multilabel_num is 0"));
}

TEST_F(ListLayers, PairsStayTogetherWhenShuffled) {
  WritePictures(7);
  std::string list;
  for (int i = 0; i < 7; ++i) list += StrCat(i, ".png ", 10 * i, "\n");
  Write("list.txt", list);
  const auto pipeline = Open("ImageData",
                             "top: 'a' top: 'b' image_data_param { source: 'list.txt' batch_size: 2 pair_size: 2 "
                             "shuffle: true }");
  std::set<float> firsts;
  std::set<std::vector<float>> orders;
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::vector<float> order;
    for (int batch = 0; batch < 3; ++batch) {
      const auto labels = Next(*pipeline)[1];
      EXPECT_EQ(labels[1], labels[0] + 10);
      order.push_back(labels[0]);
    }
    firsts.insert(order.begin(), order.end());
    orders.insert(order);
  }
  EXPECT_THAT(firsts, testing::ElementsAre(0, 20, 40));  // the seventh line is left over
  EXPECT_GT(orders.size(), 1U);
  EXPECT_THAT(OpenError("ImageData", "top: 'a' image_data_param { source: 'list.txt' pair_size: 8 shuffle: true }"),
              testing::HasSubstr("groups of 8 records, and the data set has 7"));
  EXPECT_THAT(OpenError("ImageData", "top: 'a' image_data_param { source: 'list.txt' raw_hdf5: true }"),
              testing::HasSubstr("raw_hdf5"));
  EXPECT_THAT(OpenError("ImageData", "top: 'a' image_data_param { source: 'list.txt' probability: 0.5 }"),
              testing::HasSubstr("does not read image_data_param.probability"));
  EXPECT_THAT(OpenError("ImageData", "top: 'a' image_data_param { source: 'list.txt' sample_num: 5 label_num: 2 }"),
              testing::HasSubstr("classes drawn for each batch (sample_num) are not read"));
}

TEST(SamplerGroups, BelongToOneRank) {
  std::vector<uint64_t> first;
  std::vector<uint64_t> second;
  for (int64_t n = 0; n < 4; ++n) {
    first.push_back(Sampler({.records = 8, .rank = 0, .world = 2, .group = 2}).At(n).record);
    second.push_back(Sampler({.records = 8, .rank = 1, .world = 2, .group = 2}).At(n).record);
  }
  EXPECT_THAT(first, testing::ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(second, testing::ElementsAre(2, 3, 6, 7));
}

}  // namespace
}  // namespace moka

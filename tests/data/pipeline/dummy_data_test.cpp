// DummyData and MemoryData: batches without files.
#include <algorithm>

#include "data/pipeline/memory_pipeline.h"
#include "tests/data/pipeline/pipelines_fixture.h"

namespace moka {
namespace {

TEST_F(Pipelines, DummyDataFillsConstantsOnceAndRandomsAgain) {
  const auto pipeline = OpenPipeline(
      Layer(
          "name: 'd' type: 'DummyData' top: 'a' top: 'b' dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 500 } "
          "data_filler { value: 4 } data_filler { type: 'gaussian' mean: 1 std: 0.5 } }"),
      Options());
  const Batch first = NextOf(*pipeline);
  const Batch second = NextOf(*pipeline);
  EXPECT_THAT(first.data, testing::Each(4.0F));
  EXPECT_EQ(first.data, second.data);
  EXPECT_NE(first.labels, second.labels);
  double sum = 0;
  for (const float value : first.labels) sum += static_cast<double>(value);
  EXPECT_NEAR(sum / 500, 1, 0.1);
  pipeline->Seek(0);
  EXPECT_EQ(NextOf(*pipeline), first);
}

TEST_F(Pipelines, DummyDataTakesTheOldFieldsAndRefusesUnknownFillers) {
  const auto pipeline = OpenPipeline(
      Layer("name: 'd' type: 'DummyData' top: 'a' dummy_data_param { num: 2 channels: 3 height: 4 width: 5 }"),
      Options());
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,3,4,5]");
  EXPECT_THAT(NextOf(*pipeline).data, testing::Each(0.0F));
  EXPECT_THAT(ErrorOf([&] {
                OpenPipeline(
                    Layer("name: 'd' type: 'DummyData' top: 'a' dummy_data_param { shape { dim: 2 } data_filler "
                          "{ type: 'gausian' } }"),
                    Options());
              }),
              testing::HasSubstr("unknown filler type \"gausian\"; did you mean \"gaussian\"?"));
}

TEST_F(Pipelines, DummyDataHasEveryFillerOfParameters) {
  const auto fill = [&](const std::string& shape, const std::string& filler) {
    return NextOf(*OpenPipeline(Layer("name: 'd' type: 'DummyData' top: 'a' dummy_data_param { shape { " + shape +
                                      " } data_filler { " + filler + " } }"),
                                Options()))
        .data;
  };
  const std::vector<float> bilinear = fill("dim: 2 dim: 1 dim: 2 dim: 2", "type: 'bilinear'");
  EXPECT_THAT(bilinear, testing::ElementsAre(0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25));
  const std::vector<float> unit = fill("dim: 2 dim: 50", "type: 'positive_unitball'");
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_GE(unit[row * 50 + i], 0);
      sum += static_cast<double>(unit[row * 50 + i]);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const std::vector<float> sparse = fill("dim: 10 dim: 100", "type: 'gaussian' std: 1 sparse: 2");
  EXPECT_NEAR(static_cast<double>(std::ranges::count(sparse, 0.0F)), 800, 80);
  EXPECT_THAT(ErrorOf([&] { fill("dim: 2 dim: 1 dim: 2 dim: 3", "type: 'bilinear'"); }),
              testing::HasSubstr("needs a square 2-D kernel"));
}

TEST_F(Pipelines, MemoryDataGoesRound) {
  const auto pipeline = OpenPipeline(Layer("name: 'd' type: 'MemoryData' top: 'a' top: 'b' memory_data_param { "
                                           "batch_size: 2 channels: 1 height: 1 width: 2 }"),
                                     Options());
  EXPECT_THAT(ErrorOf([&] { NextOf(*pipeline); }), testing::HasSubstr("was not given its samples"));
  auto& memory = dynamic_cast<MemoryPipeline&>(*pipeline);
  memory.Fill(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, std::vector<float>{0, 1, 2, 3});
  EXPECT_THAT(NextOf(*pipeline).data, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(2, 3));
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(0, 1));
  EXPECT_THAT(ErrorOf([&] {
                memory.Fill(std::vector<float>{1, 2}, std::vector<float>{0});
              }),
              testing::HasSubstr("1 samples, expected a multiple of the batch size 2"));
}

}  // namespace
}  // namespace moka

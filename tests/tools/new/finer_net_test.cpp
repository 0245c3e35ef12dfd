// Nets whose first strides are taken out for small pictures keep their weights, and see planes of about the size that
// they were trained on.
#include "tools/new/finer_net.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "core/text.h"

namespace moka {
namespace {

using testing::ElementsAre;

constexpr const char* kStem = R"(
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
          convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 } }
  layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
  layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
  layer { name: "a" type: "Convolution" bottom: "pool1" top: "a"
          convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 } }
  layer { name: "b" type: "Convolution" bottom: "pool1" top: "b"
          convolution_param { num_output: 8 kernel_size: 1 stride: 2 } }
  layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" })";
constexpr const char* kMean = R"(
  layer { name: "mean" type: "Pooling" bottom: "sum" top: "mean" pooling_param { pool: AVE global_pooling: true } }
  layer { name: "fc" type: "InnerProduct" bottom: "mean" top: "fc" inner_product_param { num_output: 3 } })";

NetParameter NetOf(const std::string& text) {
  NetParameter net;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &net)) << text;
  return net;
}

std::optional<NetParameter> Finer(const std::string& text, int64_t taken, int64_t side) {
  return FinerNet(NetOf(text), "data", {1, 3, taken, taken}, side);
}

// Layers with their strides, and what they read.
std::vector<std::string> Strides(const NetParameter& net) {
  std::vector<std::string> all;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() != "Convolution" && layer.type() != "Pooling") continue;
    const auto& strides =
        layer.has_pooling_param() ? layer.pooling_param().stride() : layer.convolution_param().stride();
    const int64_t stride = strides.empty() ? 1 : strides[0];
    all.push_back(StrCat(layer.name(), " of ", layer.bottom(0), " by ", stride));
  }
  return all;
}

TEST(FinerNet, AsManyStridesGoAsBringThePicturesNearest) {
  const std::string text = StrCat(kStem, kMean);
  const std::optional<NetParameter> two = Finer(text, 96, 32);
  ASSERT_TRUE(two);
  EXPECT_THAT(Strides(*two),
              ElementsAre("conv1 of data by 1", "a of conv1 by 2", "b of conv1 by 2", "mean of sum by 1"));
  const std::optional<NetParameter> one = Finer(text, 96, 64);
  ASSERT_TRUE(one);
  EXPECT_THAT(Strides(*one), ElementsAre("conv1 of data by 1", "pool1 of conv1 by 2", "a of pool1 by 2",
                                         "b of pool1 by 2", "mean of sum by 1"));
  const std::optional<NetParameter> three = Finer(text, 96, 12);
  ASSERT_TRUE(three);
  EXPECT_THAT(Strides(*three),
              ElementsAre("conv1 of data by 1", "a of conv1 by 1", "b of conv1 by 1", "mean of sum by 1"))
      << "a block and its shortcut go together";
  EXPECT_FALSE(Finer(text, 96, 96));
  EXPECT_FALSE(Finer(text, 96, 80));
  EXPECT_FALSE(Finer(text, 32, 96));
  EXPECT_FALSE(Finer(text, 256, 8)) << "it has three levels of strides";
}

TEST(FinerNet, APoolingWithAMiddleStays) {
  const std::string text = StrCat(R"(
    layer { name: "pool" type: "Pooling" bottom: "data" top: "sum" pooling_param { kernel_size: 3 stride: 2 } })",
                                  kMean);
  const std::optional<NetParameter> finer = Finer(text, 64, 32);
  ASSERT_TRUE(finer);
  EXPECT_EQ(finer->layer(0).pooling_param().stride_size(), 0);
  EXPECT_EQ(finer->layer(0).pooling_param().pad(0), 1U);
}

TEST(FinerNet, WhatWouldNeedOtherWeightsIsLeftAlone) {
  const std::string flat = StrCat(kStem, R"(
    layer { name: "fc" type: "InnerProduct" bottom: "sum" top: "fc" inner_product_param { num_output: 3 } })");
  EXPECT_FALSE(Finer(flat, 96, 33)) << "its product has weights for each place";
  const std::string four = StrCat(R"(
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "sum"
            convolution_param { num_output: 4 kernel_size: 7 stride: 4 } })",
                                  kMean);
  EXPECT_FALSE(Finer(four, 96, 32));
  const std::string uneven = StrCat(R"(
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "sum"
            convolution_param { num_output: 4 kernel_size: 3 stride_h: 2 stride_w: 1 } })",
                                    kMean);
  EXPECT_FALSE(Finer(uneven, 96, 32));
}

}  // namespace
}  // namespace moka

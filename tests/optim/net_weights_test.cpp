// Matching of files to nets: by name, old shapes, every mismatch listed, nothing half loaded.
#include "optim/checkpoint/net_weights.h"

#include "layers/net/catalog.h"
#include "optim/checkpoint/trained_weights.h"
#include "optim_fixture.h"

namespace moka {
namespace {

class NetWeightsTest : public FolderTest {
 protected:
  NetWeightsTest() { AddBlobs(blobs_, 1, store_); }
  WeightsLoaded Load(std::vector<NamedBlob> blobs) {
    Weights weights;
    weights.blobs = std::move(blobs);
    return LoadWeights(weights, "w.caffemodel", blobs_, store_);
  }
  const std::vector<NetBlob> blobs_ = {Blob("ip1", 0, {2, 3}), Blob("ip1", 1, {2}), Blob("ip2", 0, {1, 2})};
  ParameterStore store_;
};

TEST_F(NetWeightsTest, LayersAreMatchedByName) {
  const WeightsLoaded result =
      Load({{"ip1", 0, {2, 3}, {1, 2, 3, 4, 5, 6}}, {"ip1", 1, {2}, {7, 8}}, {"old", 0, {9}, {}}});
  EXPECT_EQ(result.loaded, std::vector<std::string>{"ip1"});
  EXPECT_EQ(result.ignored, std::vector<std::string>{"old"});
  EXPECT_EQ(result.missing, std::vector<std::string>{"ip2"});
  EXPECT_EQ(store_.Values("ip1/0"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(NetWeightsTest, OldFourDimensionalBlobsFit) {
  Load({{"ip1", 0, {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}, {"ip1", 1, {1, 1, 1, 2}, {7, 8}}});
  EXPECT_EQ(store_.Values("ip1/1"), (std::vector<float>{7, 8}));
}

TEST_F(NetWeightsTest, EveryMismatchIsListedAndNothingChanges) {
  const std::vector<float> before = store_.Values("ip1/1");
  const Caught caught = ErrorOf([&] {
    Load({{"ip1", 0, {3, 2}, {1, 2, 3, 4, 5, 6}},
          {"ip1", 1, {2}, {7, 8}},
          {"ip2", 0, {1, 2}, {1, 2}},
          {"ip2", 1, {1}, {1}}});
  });
  EXPECT_EQ(caught.kind, ErrorKind::kBadData);
  EXPECT_THAT(caught.text, testing::HasSubstr("blob 0 of layer \"ip1\" has shape [3,2] and the net's has shape [2,3]"));
  EXPECT_EQ(store_.Values("ip1/1"), before);
  EXPECT_THAT(ErrorOf([&] {
                Load({{"ip2", 0, {1, 2}, {1, 2}}, {"ip2", 1, {1}, {1}}});
              }).text,
              testing::HasSubstr("layer \"ip2\" has 2 blobs and the net's has 1"));
}

TEST_F(NetWeightsTest, CountersThatCaffeKeepsElsewhereMayBeMissing) {
  std::vector<NetBlob> blobs = {Blob("m", 0, {1, 2}), Blob("m", 1, {})};
  blobs[1].role = ParameterRole::kStatistic;
  ParameterStore store;
  AddBlobs(blobs, 1, store);
  store.Set("m/1", std::vector<float>{7});
  Weights weights;
  weights.blobs = {{"m", 0, {1, 2}, {3, 4}}};
  LoadWeights(weights, "w.caffemodel", blobs, store);
  EXPECT_EQ(store.Values("m/0"), (std::vector<float>{3, 4}));
  EXPECT_EQ(store.Values("m/1"), std::vector<float>{7});
  weights.blobs = {{"m", 0, {1, 2}, {3, 4}}, {"m", 5, {}, {1}}};
  EXPECT_THAT(ErrorOf([&] { LoadWeights(weights, "w.caffemodel", blobs, store); }).text,
              testing::HasSubstr("blob 1 of layer \"m\" is missing"));
}

TEST_F(NetWeightsTest, StatisticsWithASumOfWeightsOf0AreTakenAsTheyAre) {
  // NVIDIA's first release has scale and shift before the statistics, later ones behind them.
  for (const int first : {0, 2}) {
    std::vector<NetBlob> blobs;
    for (int i = 0; i < 5; ++i) {
      const bool is_statistic = i >= first && i < first + 3;
      blobs.push_back(Blob("bn", i, i == first + 2 ? Shape{1} : Shape{2}));
      blobs.back().role = is_statistic ? ParameterRole::kStatistic : ParameterRole::kNorm;
    }
    const auto sum_after = [&](std::vector<float> mean, std::vector<float> variance, float sum) {
      ParameterStore store;
      AddBlobs(blobs, 1, store);
      Weights weights;
      for (int i = 0; i < 5; ++i) weights.blobs.push_back({"bn", i, {2}, {7, 8}});
      weights.blobs[static_cast<size_t>(first)].values = std::move(mean);
      weights.blobs[static_cast<size_t>(first) + 1].values = std::move(variance);
      weights.blobs[static_cast<size_t>(first) + 2] = {"bn", first + 2, {1}, {sum}};
      LoadWeights(weights, "w", blobs, store);
      return store.Values(StrCat("bn/", first + 2));
    };
    EXPECT_EQ(sum_after({1, 2}, {3, 4}, 0), std::vector<float>{1});
    EXPECT_EQ(sum_after({0, 0}, {3, 0}, 0), std::vector<float>{1});
    EXPECT_EQ(sum_after({0, -2}, {0, 0}, 0), std::vector<float>{1});
    EXPECT_EQ(sum_after({0, 0}, {0, 0}, 0), std::vector<float>{0});  // no batch was seen
    EXPECT_EQ(sum_after({1, 2}, {3, 4}, 999.98F), std::vector<float>{999.98F});
  }
}

TEST_F(NetWeightsTest, ATrainedNetWantsEveryLayerFromSomeFile) {
  const std::vector<NamedBlob> all = WeightsOf(blobs_, store_);
  WriteSafetensors(At("one.safetensors"), std::span(all).first(2));
  WriteSafetensors(At("two.safetensors"), std::span(all).last(1));
  const std::string one = At("one.safetensors").string();
  const std::string two = At("two.safetensors").string();
  EXPECT_EQ(ReadWeightFiles(one, blobs_, store_), std::vector<std::string>{"ip2"});
  EXPECT_EQ(ReadWeightFiles(two, blobs_, store_), std::vector<std::string>{"ip1"});
  EXPECT_EQ(ReadWeightFiles(StrCat(one, ",", two), blobs_, store_), std::vector<std::string>{});
  LoadTrainedWeights(StrCat(two, ", ", one), blobs_, store_);
  LoadWeightFiles(one, blobs_, store_);  // to train from
  const Caught caught = ErrorOf([&] { LoadTrainedWeights(one, blobs_, store_); });
  EXPECT_EQ(caught.kind, ErrorKind::kBadData);
  EXPECT_THAT(caught.text, testing::HasSubstr("no weights of layer ip2"));
}

TEST_F(NetWeightsTest, WhatLayersKeepBelongsToOneProgram) {
  const auto net = [](const Shape& shape) {
    BuiltNet built{NetParameter(), Graph(StandardCatalog())};
    built.kept.push_back({"l/@h", shape, built.graph.AddState("l/@h", {DType::kFloat32, shape, {}})});
    return built;
  };
  BuiltNet train = net({2, 3});
  BuiltNet test = net({1, 3});
  AddKept(train, "train", store_);
  AddKept(test, "test0", store_);
  EXPECT_EQ(train.graph.value(train.kept[0].state).name, "l/@h@train");
  EXPECT_EQ(store_.type("l/@h@train").shape, (Shape{2, 3}));
  EXPECT_EQ(store_.Values("l/@h@test0"), (std::vector<float>{0, 0, 0}));
  store_.Set("l/@h@test0", std::vector<float>{1, 2, 3});
  BuiltNet again = net({1, 3});
  AddKept(again, "test0", store_);
  EXPECT_EQ(store_.Values("l/@h@test0"), (std::vector<float>{1, 2, 3}));
}

// Caffe's HDF5 files hold a shared blob once.
TEST_F(NetWeightsTest, SharedBlobsMayBeMissingInHdf5Only) {
  NetBlob tied = Blob("tied", 0, {2, 3});
  tied.name = "ip1/0";
  tied.shared = true;
  const std::vector<NetBlob> blobs = {blobs_[0], blobs_[1], tied, Blob("tied", 1, {4})};
  AddBlobs(blobs, 1, store_);
  Weights weights;
  weights.blobs = {{"ip1", 0, {2, 3}, {1, 2, 3, 4, 5, 6}}, {"ip1", 1, {2}, {7, 8}}, {"tied", 1, {4}, {1, 2, 3, 4}}};
  weights.format = "hdf5";
  const WeightsLoaded result = LoadWeights(weights, "w.h5", blobs, store_);
  EXPECT_EQ(result.loaded, (std::vector<std::string>{"ip1", "tied"}));
  EXPECT_EQ(store_.Values("tied/1"), (std::vector<float>{1, 2, 3, 4}));
  weights.format = "caffemodel";
  EXPECT_THAT(ErrorOf([&] { LoadWeights(weights, "w", blobs, store_); }).text,
              testing::HasSubstr("layer \"tied\" has 1 blobs and the net's has 2"));
}

TEST_F(NetWeightsTest, ALayerWithoutBlobsInTheFileIsAnError) {
  Weights weights;
  weights.blobs = {{"ip2", 0, {1, 2}, {1, 2}}};
  weights.net.add_layer()->set_name("ip1");
  weights.net.add_layer()->set_name("elsewhere");
  EXPECT_THAT(ErrorOf([&] { LoadWeights(weights, "w", blobs_, store_); }).text,
              testing::HasSubstr("layer \"ip1\" has 0 blobs and the net's has 2"));
}

TEST_F(NetWeightsTest, NoLayerInCommonIsAnError) {
  EXPECT_THAT(ErrorOf([&] { Load({{"x", 0, {1}, {1}}}); }).text, testing::HasSubstr("none of its 1 layers"));
}

TEST_F(NetWeightsTest, FilesGoThroughUnchanged) {
  store_.Set("ip2/0", std::vector<float>{0.1F, -0.2F});
  WriteCaffemodel(At("w.caffemodel"), NetParameter(), WeightsOf(blobs_, store_));
  WriteSafetensors(At("w.safetensors"), WeightsOf(blobs_, store_));
  const std::vector<float> first = store_.Values("ip1/0");
  WriteHdf5Weights(At("w.caffemodel.h5"), NetParameter(), WeightsOf(blobs_, store_));
  for (const char* name : {"w.caffemodel", "w.safetensors", "w.caffemodel.h5"}) {
    store_.Set("ip1/0", std::vector<float>(6, 0.0F));
    store_.Set("ip2/0", std::vector<float>(2, 0.0F));
    LoadWeightFiles(At(name).string(), blobs_, store_);
    EXPECT_EQ(store_.Values("ip1/0"), first) << name;
    EXPECT_EQ(store_.Values("ip2/0"), (std::vector<float>{0.1F, -0.2F})) << name;
  }
}

TEST_F(NetWeightsTest, ATestNetsShapesMustAgree) {
  const std::vector<NetBlob> other = {Blob("ip1", 0, {5, 3})};
  EXPECT_THAT(ErrorOf([&] { AddBlobs(other, 1, store_); }).text,
              testing::HasSubstr("has shape [5,3] here and [2,3] in the train net"));
}

}  // namespace
}  // namespace moka

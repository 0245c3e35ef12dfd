// Weights to train from: heads of other numbers of outputs start fresh and are named, whatever else differs is refused.
#include "optim/checkpoint/start_weights.h"

#include "optim/checkpoint/net_weights.h"
#include "optim_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StartWeights : public FolderTest {
 protected:
  StartWeights() { AddBlobs(blobs_, 1, store_); }
  StartLoaded Load(std::vector<NamedBlob> blobs) {
    Weights weights;
    weights.blobs = std::move(blobs);
    return LoadStartWeights(std::move(weights), "w", blobs_, store_);
  }
  static NamedBlob Ones(const std::string& layer, int index, const Shape& shape) {
    return {layer, index, shape, std::vector<float>(static_cast<size_t>(shape.Count()), 1)};
  }
  // A head inside a block has the block's name before its own.
  const std::vector<NetBlob> blobs_ = {Blob("conv1", 0, {4, 3, 2, 2}), Blob("conv1", 1, {4}), Blob("top/fc", 0, {5, 4}),
                                       Blob("top/fc", 1, {5})};
  ParameterStore store_;
};

TEST_F(StartWeights, AHeadOfOtherClassesKeepsItsFreshValues) {
  const std::vector<float> fresh = store_.Values("top/fc/0");
  const StartLoaded met = Load(
      {Ones("conv1", 0, {4, 3, 2, 2}), Ones("conv1", 1, {4}), Ones("top/fc", 0, {10, 4}), Ones("top/fc", 1, {10})});
  EXPECT_THAT(met.loaded, ElementsAre("conv1"));
  EXPECT_THAT(met.heads, ElementsAre("top/fc (10 there, 5 here)"));
  EXPECT_THAT(met.missing, IsEmpty());
  EXPECT_EQ(store_.Values("top/fc/0"), fresh);
  EXPECT_EQ(store_.Values("conv1/1"), std::vector<float>(4, 1));
}

TEST_F(StartWeights, LayersBehindOtherOutputsStartFreshWithThem) {
  const std::vector<NetBlob> blobs = {Blob("stem", 0, {2}), Blob("a", 0, {4, 2}), Blob("b", 0, {5, 4})};
  ParameterStore store;
  AddBlobs(blobs, 1, store);
  Weights weights;
  weights.blobs = {Ones("stem", 0, {2}), Ones("a", 0, {8, 2}), Ones("b", 0, {5, 8})};
  const StartLoaded met = LoadStartWeights(std::move(weights), "w", blobs, store);
  EXPECT_THAT(met.heads, ElementsAre("a (8 there, 4 here)", "b (8 there, 4 here)"));
  EXPECT_THAT(met.loaded, ElementsAre("stem"));
}

TEST_F(StartWeights, WhateverElseDiffersIsRefused) {
  const Caught caught = ErrorOf([&] {
    Load({Ones("conv1", 0, {4, 1, 2, 2}), Ones("conv1", 1, {4}), Ones("top/fc", 0, {5, 4}), Ones("top/fc", 1, {5})});
  });
  EXPECT_EQ(caught.kind, ErrorKind::kBadData);
  EXPECT_THAT(caught.text,
              HasSubstr("blob 0 of layer \"conv1\" has shape [4,1,2,2] and the net's has shape [4,3,2,2]"));
  EXPECT_THAT(ErrorOf([&] {
                Load({Ones("top/fc", 0, {10, 4}), Ones("top/fc", 1, {10})});
              }).text,
              HasSubstr("all of its layers have other numbers of outputs than the net's: top/fc (10 there, 5 here)"));
}

}  // namespace
}  // namespace moka

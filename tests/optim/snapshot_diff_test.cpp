// snapshot_diff: Caffe's snapshots hold what the last update subtracted beside every weight.
#include <gmock/gmock.h>

#include "core/file.h"
#include "optim/checkpoint/caffe_state.h"
#include "proto/weights/hdf5_file.h"
#include "proto/weights/weight_diffs.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

// The diffs of a file in the order of its blobs; empty where a blob has none.
std::vector<std::vector<float>> DiffsOf(const std::string& path) {
  NetParameter net;
  EXPECT_TRUE(net.ParseFromString(ReadFile(path)));
  std::vector<std::vector<float>> diffs;
  for (const LayerParameter& layer : net.layer()) {
    for (const BlobProto& blob : layer.blobs()) diffs.emplace_back(blob.diff().begin(), blob.diff().end());
  }
  return diffs;
}

TEST_F(TrainerTest, SnapshotDiffIsTheLastUpdate) {
  const std::string prefix = At("snap").string();
  const std::string solver = StrCat(
      "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 weight_decay: 0.001 max_iter: 7 random_seed: 3 snapshot: 1 "
      "snapshot_prefix: \"",
      prefix, "\" ");
  Make(solver + "snapshot_diff: true", {}, Nets(0))->Run();
  const std::vector<std::vector<float>> diffs = DiffsOf(prefix + "_iter_7.caffemodel");
  const Weights before = ReadWeights(prefix + "_iter_6.caffemodel");
  const Weights after = ReadWeights(prefix + "_iter_7.caffemodel");
  ASSERT_EQ(diffs.size(), after.blobs.size());
  const std::vector<StateTensor> history = ReadCaffeState(prefix + "_iter_7.solverstate").history;
  size_t trained = 0;
  for (size_t i = 0; i < diffs.size(); ++i) {
    const NamedBlob& blob = after.blobs[i];
    ASSERT_EQ(diffs[i].size(), blob.values.size());
    if (blob.layer == "bn") {  // running means are no update
      EXPECT_THAT(diffs[i], testing::Each(0.0F));
      continue;
    }
    // SGD's update is the history, which Caffe's state lists parameter by parameter.
    while (trained < history.size() && history[trained].values.size() != blob.values.size()) ++trained;
    ASSERT_LT(trained, history.size());
    for (size_t k = 0; k < diffs[i].size(); ++k) {
      EXPECT_EQ(diffs[i][k], before.blobs[i].values[k] - blob.values[k]);
      EXPECT_NEAR(diffs[i][k], history[trained].values[k], 1e-6);
    }
    ++trained;
  }
  EXPECT_GT(std::abs(diffs[0][0]), 0.0F);

  Make(solver + "snapshot_diff: true snapshot_format: HDF5", {}, Nets(0))->Run();
  const Hdf5Reader file(prefix + "_iter_7.caffemodel.h5");
  ASSERT_TRUE(file.Has("diff/ip1/0"));
  std::vector<float> values(diffs[0].size());
  file.ReadRows("diff/ip1/0", 0, file.ShapeOf("diff/ip1/0")[0], values);
  EXPECT_EQ(values, diffs[0]);
  const Weights same = ReadWeights(prefix + "_iter_7.caffemodel.h5");
  const auto first = std::ranges::find_if(same.blobs, [](const NamedBlob& b) { return b.layer == "ip1"; });
  ASSERT_NE(first, same.blobs.end());
  EXPECT_EQ(first->values, after.blobs[0].values);

  Make(solver, {}, Nets(0))->Run();
  EXPECT_THAT(DiffsOf(prefix + "_iter_7.caffemodel"), testing::Each(testing::IsEmpty()));
}

// A convolution's weights lie in blocks of channels.
TEST_F(TrainerTest, SnapshotDiffIsInTheBlobsOwnOrder) {
  std::string net = TaskNet(16);
  const std::string product = "type: \"InnerProduct\" bottom: \"data\" top: \"ip1\" inner_product_param {";
  ASSERT_NE(net.find(product), std::string::npos);
  net.replace(net.find(product), product.size(),
              "type: \"Convolution\" bottom: \"data\" top: \"ip1\" convolution_param { kernel_size: 1");
  const std::string prefix = At("conv").string();
  Make(StrCat("base_lr: 0.1 lr_policy: \"fixed\" max_iter: 3 random_seed: 3 snapshot: 1 snapshot_diff: true "
              "snapshot_prefix: \"",
              prefix, "\""),
       {}, Nets(0, net))
      ->Run();
  const std::vector<std::vector<float>> diffs = DiffsOf(prefix + "_iter_3.caffemodel");
  const Weights before = ReadWeights(prefix + "_iter_2.caffemodel");
  const Weights after = ReadWeights(prefix + "_iter_3.caffemodel");
  ASSERT_EQ(diffs[0].size(), 16U * kFeatures);
  for (size_t k = 0; k < diffs[0].size(); ++k) {
    EXPECT_EQ(diffs[0][k], before.blobs[0].values[k] - after.blobs[0].values[k]) << k;
  }
}

TEST_F(TrainerTest, DiffsAreAsManyAsBlobs) {
  const std::vector<NamedBlob> blobs = {{"a", 0, {2}, {1, 2}}, {"a", 1, {1}, {3}}};
  WriteCaffemodelWithDiffs(At("w.caffemodel"), NetParameter(), blobs, std::vector<std::vector<float>>{{5, 6}, {7}});
  EXPECT_THAT(DiffsOf(At("w.caffemodel")), testing::ElementsAre(testing::ElementsAre(5, 6), testing::ElementsAre(7)));
  EXPECT_EQ(ReadWeights(At("w.caffemodel")).blobs[1].values, std::vector<float>{3});
  EXPECT_THROW(WriteCaffemodelWithDiffs(At("v"), NetParameter(), blobs, std::vector<std::vector<float>>{{5, 6}}),
               std::exception);
}

}  // namespace
}  // namespace moka

// A rank's part of the batch: every kind of data layer, what does not divide, and what a log says.
#include "optim/ranks/batch_policy.h"

#include "core/error.h"
#include "optim_fixture.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

NetParameter NetOf(const std::string& layers) {
  NetParameter net = NetFromText(layers, "net.prototxt");
  net.mutable_state()->set_phase(TRAIN);
  return net;
}

TEST(BatchPolicy, DividesTheBatchesOfTheTrainNetOnly) {
  const NetParameter net = NetOf(R"(
    layer { name: "a" type: "Data" top: "a" include { phase: TRAIN } data_param { source: "x" batch_size: 64 } }
    layer { name: "a" type: "Data" top: "a" include { phase: TEST } data_param { source: "y" batch_size: 33 } }
    layer { name: "b" type: "HDF5Data" top: "b" hdf5_data_param { source: "z" batch_size: 128 } }
    layer { name: "c" type: "DummyData" top: "c" top: "d" dummy_data_param { shape { dim: 64 dim: 3 } shape { dim: 64 } } }
    layer { name: "e" type: "DummyData" top: "e" dummy_data_param { num: 64 channels: 3 height: 2 width: 2 } }
    layer { name: "f" type: "MemoryData" top: "f" top: "g" memory_data_param { batch_size: 8 channels: 1 height: 1 width: 1 } }
    layer { name: "relu" type: "ReLU" bottom: "a" top: "a" })");
  const NetParameter own = NetOfRank(net, 4);
  ASSERT_EQ(own.layer_size(), 6);
  EXPECT_EQ(own.layer(0).data_param().batch_size(), 16U);
  EXPECT_EQ(own.layer(1).hdf5_data_param().batch_size(), 32U);
  EXPECT_EQ(own.layer(2).dummy_data_param().shape(0).dim(0), 16);
  EXPECT_EQ(own.layer(2).dummy_data_param().shape(0).dim(1), 3);
  EXPECT_EQ(own.layer(2).dummy_data_param().shape(1).dim(0), 16);
  EXPECT_EQ(own.layer(3).dummy_data_param().num(0), 16U);
  EXPECT_EQ(own.layer(3).dummy_data_param().channels(0), 3U);
  EXPECT_EQ(own.layer(4).memory_data_param().batch_size(), 2U);
  EXPECT_EQ(net.layer(0).data_param().batch_size(), 64U);
}

TEST(BatchPolicy, NamesTheNearestBatchesThatDivide) {
  const NetParameter net =
      NetOf(R"(layer { name: "a" type: "Data" top: "a" data_param { source: "x" batch_size: 50 } })");
  try {
    (void)NetOfRank(net, 4);
    FAIL() << "50 is no multiple of 4";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_EQ(error.text(), "layer \"a\": a batch of 50 does not divide among 4 ranks");
    EXPECT_EQ(error.hint(), "take 48 or 52, or distributed { batch: \"per_rank\" }, which gives each rank 50");
    EXPECT_EQ(error.place().line, 1);
    EXPECT_GT(error.place().column, 60);
  }
  try {
    (void)NetOfRank(net, 64);
    FAIL() << "50 is less than 64";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint().substr(0, 8), "take 64,");
  }
}

TEST(BatchPolicy, SaysWhatItIs) {
  EXPECT_EQ((BatchPolicy{.ranks = 4, .of_rank = 64}.Describe(0.1)), "batch 256 = 4 ranks x 64");
  EXPECT_EQ((BatchPolicy{.ranks = 4, .of_rank = 64, .iter_size = 2}.Describe(0.1)),
            "batch 512 = 4 ranks x 64 x 2 batches");
  EXPECT_EQ(
      (BatchPolicy{.ranks = 8, .of_rank = 32, .is_global = false}.Describe(0.1)),
      "batch 256 = 8 ranks x 32, 8 times the net's: the linear rule would make base_lr 0.8 of 0.1, with a warm-up");
}

TEST(BatchPolicy, SaysHowLongAndAtWhatRates) {
  const BatchPolicy batch{.ranks = 256, .of_rank = 32};
  const std::string goyal =
      "base_lr: 3.2 lr_policy: \"poly\" power: 2 max_iter: 1000 min_lr: 0.5 warmup_iter: 100 warmup_start_lr: 0.1 ";
  EXPECT_EQ(
      batch.DescribeSchedule(Solver(goyal + "policy_after_warmup: true"), 81920),
      "trains for 100 epochs (1000 iterations); rate 0.1 to 3.2 in a warm-up of 10 epochs (100 iterations), 0.500003 "
      "at the end; by the linear rule base_lr 3.2 is 0.1 for 256 samples");
  EXPECT_EQ(batch.DescribeSchedule(Solver("base_lr: 0.1 lr_policy: \"fixed\" max_iter: 10"), 81920),
            "trains for 1 epoch (10 iterations); rate 0.1 at first, 0.1 at the end; by the linear rule base_lr 0.1 is "
            "0.003125 for 256 samples");
  EXPECT_EQ(
      batch.DescribeSchedule(
          Solver("base_lr: 0.1 lr_policy: \"plateau\" plateau_winsize: 5 rampup_interval: 1 max_iter: 10"), 0),
      "trains for 10 iterations; rate 0 to 0.1 in a warm-up of 1 iteration, then as the loss falls; by the linear "
      "rule base_lr 0.1 is 0.003125 for 256 samples");
}

TEST(BatchPolicy, KnowsItsWords) {
  SolverParameter solver;
  EXPECT_TRUE(HasGlobalBatch(solver));
  solver.mutable_distributed()->set_batch("per_rank");
  EXPECT_FALSE(HasGlobalBatch(solver));
  solver.mutable_distributed()->set_batch("perrank");
  try {
    (void)HasGlobalBatch(solver);
    FAIL() << "an unknown word";
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("per_rank"), std::string::npos);
  }
}

}  // namespace
}  // namespace moka

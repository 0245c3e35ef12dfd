// The pass that runs the widest stretch of an inference net on a part of the images at a time: the same results from
// less memory, and no split where it does not pay or an operation mixes images.
#include <gtest/gtest.h>

#include "tests/graph/wide_net.h"

namespace moka {
namespace {

TEST(SplitBatchTest, TheWidestStretchNeedsLessMemory) {
  const Outcome whole = WideNet().Run({"tracks", "split_batch"});
  const Outcome split = WideNet().Run({"tracks"});
  EXPECT_EQ(whole.convolutions, 3);
  EXPECT_EQ(whole.copies, 0);
  EXPECT_GE(split.convolutions, 5);  // the first two in parts
  EXPECT_EQ(split.copies, 2);
  EXPECT_LT(split.arena_bytes, whole.arena_bytes * 6 / 10);
  ExpectNear(split, whole);
}

TEST(SplitBatchTest, WhatMixesImagesStaysWhole) {
  WideNet net;
  net.mixes = true;
  const Outcome split = net.Run({"tracks"});
  ExpectNear(split, net.Run({"tracks", "split_batch"}));
}

TEST(SplitBatchTest, SmallNetsOneImageAndTrainingStayWhole) {
  WideNet small;
  small.size = 32;
  EXPECT_EQ(small.Run({"tracks"}).copies, 0);
  WideNet single;
  single.images = 1;
  single.size = 512;
  EXPECT_EQ(single.Run({"tracks"}).copies, 0);
  WideNet training;
  training.inference = false;
  EXPECT_EQ(training.Run({"tracks"}).copies, 0);
}

// Noise on every element: the same numbers whether or not the net is split.
TEST(SplitBatchTest, RandomNumbersStayThoseOfTheWholeBatch) {
  WideNet net;
  net.noise = true;
  ExpectNear(net.Run({"tracks"}), net.Run({"tracks", "split_batch"}));
}

TEST(SplitBatchTest, PrimeBatchesStayWhole) {
  WideNet net;
  net.images = 13;
  EXPECT_EQ(net.Run({"tracks"}).copies, 0);
}

}  // namespace
}  // namespace moka

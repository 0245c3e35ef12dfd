// Tracks: each thread takes images of its own through an inference net. The same results as with all threads at each
// node, from any number of threads; memory of tracks is never shared; no tracks where they cannot be even.
#include "graph/tracks.h"

#include <gtest/gtest.h>

#include <chrono>

#include "graph/storage.h"
#include "tests/graph/wide_net.h"
#include "tests/threads.h"

namespace moka {
namespace {

WideNet Net(int64_t images, int64_t size = 64) {
  WideNet net;
  net.images = images;
  net.size = size;
  return net;
}

TEST(TracksTest, ResultsAreThoseOfTheWholeBatch) {
  for (const int threads : {2, 3, 4}) {
    const Threads team(threads);
    const WideNet net = Net(2 * threads);
    const Outcome tracks = net.Run({});
    EXPECT_EQ(tracks.in_tracks, 3 * threads) << threads;
    EXPECT_EQ(tracks.copies, 2) << threads;
    ExpectNear(tracks, net.Run({"tracks"}));
  }
}

// More images than fit into the caches: several parts a track, one after another in the same memory.
TEST(TracksTest, TracksOfSeveralPartsNeedLessMemory) {
  const Threads team(2);
  const WideNet net = Net(64, 128);
  const Outcome tracks = net.Run({"split_batch"});
  EXPECT_GT(tracks.in_tracks, 3 * 2);
  const Outcome whole = net.Run({"tracks", "split_batch"});
  EXPECT_LT(tracks.arena_bytes, whole.arena_bytes * 6 / 10);
  ExpectNear(tracks, whole);
}

TEST(TracksTest, NoneForOneThreadUnevenImagesOrTraining) {
  {
    const Threads team(1);
    EXPECT_EQ(Net(16).Run({}).in_tracks, 0);
  }
  const Threads team(2);
  EXPECT_EQ(Net(8).Run({}).in_tracks, 6);
  EXPECT_EQ(Net(15).Run({}).in_tracks, 0);
  EXPECT_EQ(Net(1).Run({}).in_tracks, 0);
  EXPECT_EQ(Net(2).Run({}).in_tracks, 0);  // one a thread
  WideNet training = Net(16);
  training.inference = false;
  EXPECT_EQ(training.Run({}).in_tracks, 0);
}

TEST(TracksTest, WhatMixesImagesRunsOnAllOfThem) {
  const Threads team(2);
  WideNet net = Net(16);
  net.mixes = true;
  const Outcome tracks = net.Run({});
  EXPECT_EQ(tracks.in_tracks, 4);  // the two convolutions before the mean
  ExpectNear(tracks, net.Run({"tracks"}));
}

TEST(TracksTest, RandomNumbersStayThoseOfTheWholeBatch) {
  const Threads team(2);
  WideNet net = Net(16);
  net.noise = true;
  ExpectNear(net.Run({}), net.Run({"tracks"}));
}

// Whichever track is ahead: a thousand runs give one result.
TEST(TracksTest, TracksDoNotDisturbEachOther) {
  const Threads team(4);
  ParameterStore store;
  const auto program = Net(8, 32).Make(store, {});
  RandomStream random(5, 1);
  for (float& v : program->input("x").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  program->Run();
  const auto y = program->output("y").as<float>();
  const std::vector<float> first(y.begin(), y.end());
  for (int run = 0; run < 1000; ++run) {
    program->Run();
    ASSERT_TRUE(std::ranges::equal(y, first)) << run;
  }
}

TEST(TracksTest, TimesOfTracksAddUpToNoMoreThanTheRun) {
  const Threads team(2);
  ParameterStore store;
  const auto program = Net(16).Make(store, {});
  std::vector<double> ms(program->steps().size());
  const auto begin = std::chrono::steady_clock::now();
  program->RunTimed(ms);
  const double run_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  double sum_ms = 0;
  for (size_t i = 0; i < ms.size(); ++i) {
    EXPECT_EQ(ms[i] > 0, !program->steps()[i].is_constant) << program->steps()[i].op;
    sum_ms += ms[i];
  }
  EXPECT_LE(sum_ms, run_ms);
}

TEST(TracksTest, ValuesThatAreNotFiniteAreFoundInTracks) {
  const Threads team(2);
  ParameterStore store;
  const auto program = Net(16).Make(store, {});
  for (float& v : program->input("x").as<float>()) v = 1;
  EXPECT_FALSE(program->FindNonFinite().has_value());
  store.Set("b", std::vector<float>(16 * 16 * 3 * 3, std::numeric_limits<float>::infinity()));
  program->RefreshConstants();
  const auto found = program->FindNonFinite();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->what, "state b");
}

// Items of different tracks never share memory, whatever their steps; those of one track may.
TEST(TracksTest, PlannedMemoryOfTracksIsDisjoint) {
  Graph graph{StandardCatalog()};
  const ValueId x = graph.AddInput("x", {DType::kFloat32, Shape{6, 32}, {}});
  const GraphBuilder border(graph, {"net", {}, std::string(kTracksPass), kNoId});
  const std::vector<ValueId> parts = border.Add("slice", {x}, {{"axis", int64_t{0}}, {"sizes", Ints{2, 2, 2}}});
  const Attributes lrn = {
      {"size", int64_t{3}}, {"alpha", 1.0}, {"beta", 0.75}, {"k", 1.0}, {"region", std::string("across")}};
  std::vector<ValueId> ends;
  for (const ValueId part : parts) {
    ValueId v = part;
    for (int i = 0; i < 4; ++i) v = border.Add1("lrn", {border.Reshape(v, Shape{2, 32, 1, 1})}, lrn);
    ends.push_back(v);
  }
  graph.AddOutput("y", border.Add1("concat", ends, {{"axis", int64_t{0}}}));
  std::vector<NodeId> order = graph.TopologicalOrder();
  NodeSchedule schedule{.constants = {}, .steps = order, .in_place = {}, .tracks = {}};
  FindTracks(graph, 3, schedule);
  ASSERT_EQ(schedule.track_count(), 3);
  ASSERT_EQ(schedule.steps.size(), order.size());
  EXPECT_EQ(schedule.TrackOf(0), -1);
  EXPECT_EQ(schedule.TrackOf(static_cast<int>(order.size()) - 1), -1);
  const std::vector<int64_t> scratch(order.size(), 100);
  const StoragePlan plan = PlanStorage(graph, schedule, scratch);
  std::vector<std::array<int64_t, 3>> pieces;  // track, begin, end
  for (const Storage& storage : plan.storages) {
    if (storage.place != StoragePlace::kArena || schedule.TrackOf(storage.first) < 0) continue;
    pieces.push_back({schedule.TrackOf(storage.first), storage.offset, storage.offset + storage.bytes});
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const int track = schedule.TrackOf(static_cast<int>(i));
    if (track >= 0) pieces.push_back({track, plan.scratch_offset[i], plan.scratch_offset[i] + scratch[i]});
  }
  EXPECT_GT(pieces.size(), 20U);
  for (const auto& a : pieces) {
    for (const auto& b : pieces) {
      EXPECT_TRUE(a[0] == b[0] || a[2] <= b[1] || b[2] <= a[1]) << "tracks " << a[0] << " and " << b[0];
    }
  }
}

}  // namespace
}  // namespace moka

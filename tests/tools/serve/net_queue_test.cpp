// The queue's thread runs what waits; a row that nobody waits before is run by who brings it.
#include "tools/serve/net_queue.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "tools/cli/command_line.h"

namespace moka {
namespace {

using testing::ElementsAre;

class NetQueueTest : public testing::Test {
 protected:
  // A net that one thread runs: prediction = 8 weights x features + bias.
  NetQueueTest() {
    SetThreadCount(1);
    model_ = Load();
  }
  ~NetQueueTest() override { SetThreadCount(threads_); }

  static std::shared_ptr<ServedModel> Load() {
    const Verb& infer = *FindVerb(AllVerbs(), "infer");
    return std::make_shared<ServedModel>(
        "mpg", "1", InferSourceOf(ParseArguments(infer, {StrCat(MOKA_SOURCE_DIR, "/models/auto_mpg")})), 4);
  }

  struct Ended {
    int count = 0;
    RequestEnd end = RequestEnd::kStopped;
    std::thread::id by;
    std::vector<float> predictions;
  };

  std::shared_ptr<QueuedRequest> RequestOf(int64_t rows, Ended& ended) const {
    auto request = std::make_shared<QueuedRequest>();
    request->model = model_;
    request->rows = rows;
    request->inputs = {std::vector<float>(static_cast<size_t>(8 * rows), 0.5F)};
    request->outputs.resize(1);
    request->ended = [&ended](const QueuedRequest& of, RequestEnd end, const std::string&) {
      ended = {ended.count + 1, end, std::this_thread::get_id(), of.outputs[0]};
    };
    return request;
  }

  int threads_ = ThreadCount();
  std::shared_ptr<ServedModel> model_;
  NetQueue queue_{NetQueueLimits{}};
};

TEST_F(NetQueueTest, ARowThatNobodyWaitsBeforeIsRunByWhoBringsIt) {
  ASSERT_EQ(model_->rungs()[0].threads, 1);
  Ended one;
  EXPECT_TRUE(queue_.Submit(RequestOf(1, one)).is_taken);
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.end, RequestEnd::kDone);
  EXPECT_EQ(one.by, std::this_thread::get_id());
  EXPECT_EQ(queue_.waiting(), 0);

  Ended two;
  EXPECT_TRUE(queue_.Submit(RequestOf(2, two)).is_taken);
  EXPECT_EQ(two.count, 0);
  Ended behind;
  EXPECT_TRUE(queue_.Submit(RequestOf(1, behind)).is_taken);
  EXPECT_EQ(behind.count, 0) << "it has overtaken a request";
  EXPECT_EQ(queue_.waiting(), 2);

  std::thread engine([&] { queue_.Run(); });
  const std::thread::id engine_id = engine.get_id();
  queue_.Stop(false);
  engine.join();
  EXPECT_EQ(two.by, engine_id);
  ASSERT_EQ(one.predictions.size(), 1U);
  EXPECT_THAT(two.predictions, ElementsAre(one.predictions[0], one.predictions[0]));
  EXPECT_THAT(behind.predictions, ElementsAre(one.predictions[0]));
  EXPECT_FALSE(queue_.Submit(RequestOf(1, one)).is_taken);
}

TEST_F(NetQueueTest, WhatComesMeanwhileWaits) {
  Ended inner;
  Ended outer;
  const std::shared_ptr<QueuedRequest> request = RequestOf(1, outer);
  int of_inner = -1;
  request->ended = [&](const QueuedRequest&, RequestEnd, const std::string&) {
    EXPECT_TRUE(queue_.Submit(RequestOf(1, inner)).is_taken);
    of_inner = inner.count;
  };
  EXPECT_TRUE(queue_.Submit(request).is_taken);
  EXPECT_EQ(of_inner, 0) << "two ran at once";
  EXPECT_EQ(queue_.waiting(), 1);
  std::thread engine([&] { queue_.Run(); });
  queue_.Stop(false);
  engine.join();
  EXPECT_EQ(inner.end, RequestEnd::kDone);
  EXPECT_EQ(model_->counts().Now().rows, 2);
}

TEST_F(NetQueueTest, ASmallNetIsRunByOneThread) {
  SetThreadCount(2);
  const std::shared_ptr<ServedModel> model = Load();
  ASSERT_GE(model->rungs().size(), 2U);
  for (const Rung& rung : model->rungs()) EXPECT_EQ(rung.threads, 1) << rung.rows << " rows, " << rung.ms << " ms";
}

// Without a limit given, a request waits for two of the longest runs before it, or for two of its own.
TEST_F(NetQueueTest, TheMostWaitGoesWithTheNets) {
  const auto work = [&](double ms, Ended& ended) {
    const std::shared_ptr<QueuedRequest> request = RequestOf(1, ended);
    request->work = [] {};
    request->work_ms = ms;
    return request;
  };
  std::vector<Ended> ended(6);
  EXPECT_TRUE(queue_.Submit(work(200, ended[0])).is_taken);
  EXPECT_TRUE(queue_.Submit(work(190, ended[1])).is_taken);
  EXPECT_TRUE(queue_.Look(*model_, 0, 0).is_taken) << "390 of 400 ms";
  EXPECT_FALSE(queue_.Look(*model_, 0, 401).is_taken);
  EXPECT_TRUE(queue_.Submit(RequestOf(1, ended[3])).is_taken);
  EXPECT_TRUE(queue_.Submit(work(20, ended[4])).is_taken);
  const Submission refused = queue_.Submit(work(20, ended[5]));
  EXPECT_FALSE(refused.is_taken);
  EXPECT_NEAR(refused.wait_ms, 410, 9);
  EXPECT_FALSE(queue_.Look(*model_, 0, 0).is_taken);
  EXPECT_TRUE(queue_.Submit(work(210, ended[2])).is_taken) << "410 of its own 420 ms";
  queue_.Stop(true);

  NetQueue small(NetQueueLimits{});
  EXPECT_TRUE(small.Submit(work(20, ended[0])).is_taken);
  EXPECT_TRUE(small.Submit(work(20, ended[1])).is_taken);
  EXPECT_TRUE(small.Look(*model_, 0, 99).is_taken) << "100 ms at least";
  EXPECT_FALSE(small.Look(*model_, 0, 101).is_taken);
  small.Stop(true);

  NetQueue given({.most_wait = std::chrono::milliseconds(30)});
  EXPECT_TRUE(given.Submit(work(20, ended[0])).is_taken);
  EXPECT_TRUE(given.Submit(work(20, ended[1])).is_taken);
  EXPECT_FALSE(given.Submit(work(20, ended[2])).is_taken);
  given.Stop(true);
}

TEST_F(NetQueueTest, WhatWouldWaitLongerThanItMayIsTold) {
  const auto work = [&](double ms, int64_t most_us, Ended& ended) {
    const std::shared_ptr<QueuedRequest> request = RequestOf(1, ended);
    request->arrived = ServeClock::now() - std::chrono::seconds(9);  // decoding is not waiting
    request->work = [] {};
    request->work_ms = ms;
    request->most_wait = std::chrono::microseconds(most_us);
    return request;
  };
  std::vector<Ended> ended(4);
  EXPECT_TRUE(queue_.Submit(work(50, 40000, ended[0])).is_taken) << "nothing is before it";
  const Submission late = queue_.Submit(work(1, 40000, ended[1]));
  EXPECT_FALSE(late.is_taken);
  EXPECT_TRUE(late.is_late);
  EXPECT_NEAR(late.wait_ms, 50, 1);
  const Submission early = queue_.Submit(work(1, 90000, ended[2]));
  EXPECT_TRUE(early.is_taken);
  EXPECT_FALSE(early.is_late);
  queue_.Stop(true);
}

// A run that ends before it was thought to leaves an idle queue.
TEST_F(NetQueueTest, WhatHasRunKeepsNobodyWaiting) {
  std::thread engine([&] { queue_.Run(); });
  std::atomic<bool> is_done = false;
  const std::shared_ptr<QueuedRequest> request = [&] {
    auto made = std::make_shared<QueuedRequest>();
    made->model = model_;
    made->work = [] {};
    made->work_ms = 60000;
    made->ended = [&](const QueuedRequest&, RequestEnd, const std::string&) { is_done = true; };
    return made;
  }();
  EXPECT_TRUE(queue_.Submit(request).is_taken);
  while (!is_done) std::this_thread::yield();
  Submission after = queue_.Look(*model_, 0, 0);
  for (int i = 0; i < 1000 && after.wait_ms > 0; ++i) {  // until the engine has seen the end, too
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    after = queue_.Look(*model_, 0, 0);
  }
  EXPECT_TRUE(after.is_taken);
  EXPECT_EQ(after.wait_ms, 0);
  queue_.Stop(false);
  engine.join();
}

TEST_F(NetQueueTest, LongWorkIsTheEnginesOwn) {
  Ended ended;
  const std::shared_ptr<QueuedRequest> request = RequestOf(1, ended);
  request->work = [] {};
  request->work_ms = 20;
  EXPECT_TRUE(queue_.Submit(request).is_taken);
  EXPECT_EQ(ended.count, 0);
  std::thread engine([&] { queue_.Run(); });
  queue_.Stop(false);
  engine.join();
  EXPECT_EQ(ended.count, 1);
}

}  // namespace
}  // namespace moka

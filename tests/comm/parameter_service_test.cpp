// Servers in every rank: what each rule makes of pushed gradients, who waits for whom, and how ranks leave.
#include "comm/server/parameter_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/exchange/state_mean.h"
#include "core/error.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

using Rule = ParameterService::Rule;

// Plain gradient descent with rate 1 on what one rank owns; remembers who pushed when.
class Values : public ServedValues {
 public:
  explicit Values(size_t count, float first) : values(count, first) {}
  void Apply(int64_t clock, double, std::span<float> gradients, std::span<const float> sent) override {
    clocks.push_back(clock);
    if (!sent.empty()) delays.push_back(sent.empty() || values.empty() ? 0 : values[0] - sent[0]);
    for (size_t i = 0; i < values.size(); ++i) values[i] -= gradients[i];
  }
  void Read(std::span<float> to) const override { std::ranges::copy(values, to.begin()); }

  std::vector<float> values;
  std::vector<int64_t> clocks;
  std::vector<float> delays;  // how far the values had gone since the worker had them
};

struct Rank {
  Communicator& world;
  ParameterService& service;
  Values& own;
};

// Servers of 5, 0, 7, ... values.
std::vector<int64_t> Elements(int ranks) {
  std::vector<int64_t> elements;
  for (int r = 0; r < ranks; ++r) elements.push_back(r == 1 ? 0 : 5 + r);
  return elements;
}
size_t Total(int ranks) {
  size_t total = 0;
  for (const int64_t count : Elements(ranks)) total += static_cast<size_t>(count);
  return total;
}

void RunService(int ranks, Rule rule, int64_t staleness, const std::function<void(Rank)>& body,
                std::chrono::milliseconds patience = std::chrono::seconds(20)) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(ranks);
  RunRanks(transports, [&](Transport& transport) {
    const auto rank = static_cast<size_t>(transport.rank());
    Communicator world(std::move(transports[rank]), {}, patience);
    Values own(static_cast<size_t>(Elements(ranks)[rank]), 1000);
    ParameterService service(world, Elements(ranks), rule, staleness, own);
    body({world, service, own});
  });
}

TEST(ParameterService, SumsThePushesOfAClockTogether) {
  for (const int ranks : {1, 2, 3, 5}) {
    RunService(ranks, Rule::kTogether, 0, [&](Rank rank) {
      std::vector<float> weights(Total(ranks));
      float expected = 1000;
      for (int64_t phase = 0; phase < 2; ++phase) {  // a rank may enter again
        rank.service.Enter(phase * 10);
        for (int64_t clock = phase * 10; clock < phase * 10 + 10; ++clock) {
          const std::vector<float> gradients(Total(ranks), static_cast<float>(rank.world.rank() + clock));
          const auto answer = rank.service.Exchange(clock, 2.0 * rank.world.rank(), {}, gradients, weights);
          for (int r = 0; r < ranks; ++r) expected -= static_cast<float>(r + clock);
          EXPECT_EQ(weights, std::vector<float>(Total(ranks), expected));
          EXPECT_DOUBLE_EQ(answer.loss, ranks - 1);
        }
        rank.service.Leave();
        EXPECT_EQ(rank.world.AllGather("x").size(), static_cast<size_t>(ranks)) << "the communicator is free";
      }
      EXPECT_EQ(rank.own.clocks.size(), 20U);
    });
  }
}

TEST(ParameterService, TakesTurnsInTheOrderOfRanks) {
  constexpr int kRanks = 3;
  RunService(kRanks, Rule::kTurn, 0, [&](Rank rank) {
    const int r = rank.world.rank();
    rank.service.Enter(0);
    std::vector<float> weights(Total(kRanks));
    float expected = 1000;
    for (int64_t clock = 0; clock < 6; ++clock) {
      if (r == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const std::vector<float> gradients(Total(kRanks), static_cast<float>(1 << r));
      rank.service.Exchange(clock, 0, {}, gradients, weights);
      // After this rank's turn: all of the clocks before, and of this one the ranks up to it.
      expected = 1000 - static_cast<float>(clock * 7 + (2 << r) - 1);
      EXPECT_EQ(weights, std::vector<float>(Total(kRanks), expected)) << "rank " << r << " clock " << clock;
    }
    rank.service.Leave();
    if (rank.own.values.empty()) return;
    // A gradient is two updates old but in the first turn, where the weights are the first ones.
    for (size_t i = 0; i < rank.own.delays.size(); ++i) {
      const float others = i < 3 ? -static_cast<float>((1U << i) - 1) : -static_cast<float>(7 - (1U << (i % 3)));
      EXPECT_EQ(rank.own.delays[i], others) << i;
    }
  });
}

TEST(ParameterService, AppliesEveryPushOnceInWhateverOrder) {
  constexpr int kRanks = 4;
  for (const Rule rule : {Rule::kArrival, Rule::kBounded}) {
    std::atomic<int64_t> clocks[kRanks] = {};
    RunService(kRanks, rule, 2, [&](Rank rank) {
      const int r = rank.world.rank();
      rank.service.Enter(0);
      std::vector<float> weights(Total(kRanks));
      for (int64_t clock = 0; clock < 40; ++clock) {
        if (r == 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::vector<float> gradients(Total(kRanks), 0.25F);
        rank.service.Exchange(clock, 0, {}, gradients, weights);
        clocks[r] = clock;
        if (rule != Rule::kBounded) continue;
        // The slow one has pushed clock - 2 at least, so it has been answered clock - 3.
        EXPECT_GE(clocks[3], clock - 3) << "rank " << r;
      }
      rank.service.Leave();
      EXPECT_EQ(rank.own.values, std::vector<float>(rank.own.values.size(), 1000 - 40.0F * kRanks * 0.25F));
    });
  }
}

TEST(ParameterService, ASignalReachesAllAfterOneClock) {
  constexpr int kRanks = 3;
  for (const Rule rule : {Rule::kTogether, Rule::kArrival, Rule::kTurn}) {
    std::atomic<int64_t> heard[kRanks];
    RunService(kRanks, rule, 0, [&](Rank rank) {
      const int r = rank.world.rank();
      rank.service.Enter(7);
      std::vector<float> weights(Total(kRanks));
      const std::vector<float> gradients(Total(kRanks), 1);
      for (int64_t clock = 7; clock < 200; ++clock) {
        ParameterService::Signals signals{};
        signals[1] = r == 1 && clock >= 20 ? 1 : 0;
        const auto answer = rank.service.Exchange(clock, 0, signals, gradients, weights);
        EXPECT_EQ(answer.signals[0], 0);
        heard[r] = clock;
        if (answer.signals[1] > 0) break;
      }
      rank.service.Leave();
    });
    EXPECT_EQ(heard[0], heard[1]);
    EXPECT_EQ(heard[2], heard[1]);
    EXPECT_GE(heard[0], 20);
    EXPECT_LT(heard[0], 199);
  }
}

TEST(ParameterService, SilenceEndsAllWithOneText) {
  std::atomic<int> ended = 0;
  EXPECT_THROW(RunService(
                   3, Rule::kTogether, 0,
                   [&](Rank rank) {
                     rank.service.Enter(0);
                     rank.world.SetWatch({.diagnose = [] { return std::string("rank 2 sleeps; "); }});
                     if (rank.world.rank() == 2) {
                       while (ended < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       return;
                     }
                     std::vector<float> weights(Total(3));
                     try {
                       rank.service.Exchange(0, 0, {}, std::vector<float>(Total(3)), weights);
                     } catch (const Error& error) {
                       EXPECT_EQ(error.kind(), ErrorKind::kPeer);
                       EXPECT_NE(error.text().find("rank 2 sleeps; "), std::string::npos) << error.text();
                       ++ended;
                       throw;
                     }
                   },
                   std::chrono::milliseconds(200)),
               Error);
  EXPECT_EQ(ended, 2);
}

TEST(ParameterService, CancelTellsTheOthersWhy) {
  std::atomic<int> told = 0;
  EXPECT_THROW(RunService(3, Rule::kArrival, 0,
                          [&](Rank rank) {
                            rank.service.Enter(0);
                            if (rank.world.rank() == 0) return rank.service.Cancel("the disk is full");
                            try {
                              rank.service.Leave();
                            } catch (const Error& error) {
                              EXPECT_NE(error.text().find("the disk is full"), std::string::npos) << error.text();
                              ++told;
                              throw;
                            }
                          }),
               Error);
  EXPECT_EQ(told, 2);
}

TEST(StateMean, IsTheMeanOfAllRanksInPlaceAndTheSumOfTheRest) {
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(ranks);
    RunRanks(transports, [&](Transport& transport) {
      const int r = transport.rank();
      Communicator world(std::move(transports[static_cast<size_t>(r)]));
      std::vector<float> a(1000, static_cast<float>(r));
      std::vector<float> b = {static_cast<float>(4 * r), 8};
      StateMean mean(
          world, "auto",
          {Tensor({DType::kFloat32, Shape{10, 100}, {}}, a.data()), Tensor({DType::kFloat32, Shape{2}, {}}, b.data())},
          1);
      for (int i = 0; i < 3; ++i) {
        mean.sums()[0] = 1;
        mean.Run();
        EXPECT_EQ(mean.sums()[0], static_cast<float>(ranks));
      }
      const float middle = static_cast<float>(ranks - 1) / 2;
      for (const float v : a) EXPECT_NEAR(v, middle, 1e-6);
      EXPECT_NEAR(b[0], 4 * middle, 1e-5);
      EXPECT_EQ(b[1], 8);
    });
  }
}

TEST(ParameterService, EndsWheneverItIsTold) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(1);
  Communicator world(std::move(transports[0]), {}, std::chrono::seconds(5));
  Values own(1, 1000);
  for (int i = 0; i < 3000; ++i) ParameterService(world, {1}, Rule::kTogether, 0, own);
}

}  // namespace
}  // namespace moka

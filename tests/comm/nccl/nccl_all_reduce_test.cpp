// Sums by NCCL, without a GPU: a library of the tests takes its place (fake_nccl.cpp) and streams are rehearsed. How
// ranks find each other, what is refused, that every wait ends and whose name it then gives.
#include "comm/device/nccl_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>

#include "comm/exchange/device_exchange.h"
#include "comm/exchange/exchange_planner.h"
#include "comm/exchange/gradient_exchange.h"
#include "core/error.h"
#include "core/shared_library.h"
#include "core/text.h"
#include "fake_nccl.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr int kRanks = 3;
constexpr Device kRehearsed{DeviceKind::kCuda, Device::kRehearsed};
using testing::HasSubstr;

class NcclTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("MOKA_CUDA_LIBRARIES", MOKA_FAKE_NCCL, 1); }
  void SetUp() override { TakeCounts(); }
  void TearDown() override {
    FailWith(ncclSuccess);
    ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    ::unsetenv("FAKE_NCCL_VERSION");
  }
  static const SharedLibrary& Fake() {
    static const SharedLibrary library({"libnccl.so.2"}, "the tests");
    return library;
  }
  static FakeNcclCounts TakeCounts() { return Fake().Symbol<decltype(&FakeNcclTakeCounts)>("FakeNcclTakeCounts")(); }
  static void FailWith(ncclResult_t result) { Fake().Symbol<decltype(&FakeNcclFailWith)>("FakeNcclFailWith")(result); }
  static void RunWorld(const std::function<void(Communicator&)>& body,
                       std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    RunRanks(kRanks, [&, world = std::make_shared<std::vector<std::unique_ptr<Transport>>>(MakeThreadWorld(kRanks))](
                         Transport& transport) {
      Communicator communicator(std::move((*world)[static_cast<size_t>(transport.rank())]), {}, patience);
      body(communicator);
    });
  }
  static std::string PlaceOf(const Communicator& world) { return StrCat("gpu ", world.rank()); }
  static Error ErrorOf(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error;
    }
    return {ErrorKind::kInternal, "nothing was refused"};
  }
};

TEST_F(NcclTest, SumsPiecesWhereTheyLie) {
  RunWorld([](Communicator& world) {
    const auto nccl = MakeNcclAllReduce(world, PlaceOf(world));
    const auto stream = MakeStream(kRehearsed);
    nccl->Connect(*stream);
    std::vector<float> a(1000);
    std::vector<float> b(7);
    Message message{std::span<float>(a)};
    message.Append(b.data(), 7);
    for (int round = 1; round < 4; ++round) {
      std::ranges::fill(a, static_cast<float>(world.rank() + round));
      std::ranges::fill(b, static_cast<float>(world.rank() * round));
      nccl->Queue(message, {}, Wire::kFloat32, *stream);
      for (const float v : a) ASSERT_EQ(v, static_cast<float>(3 + 3 * round));
      for (const float v : b) ASSERT_EQ(v, static_cast<float>(3 * round));
      EXPECT_EQ(nccl->Failure(), "");
    }
    world.Barrier();
  });
  const FakeNcclCounts counts = TakeCounts();
  EXPECT_EQ(counts.groups, 3 * kRanks);
  EXPECT_EQ(counts.sums, 2 * 3 * kRanks);
  EXPECT_EQ(counts.finalized, kRanks);
  EXPECT_EQ(counts.destroyed, kRanks);
  EXPECT_EQ(counts.aborts, 0);
}

TEST_F(NcclTest, SaysWhatIsMissing) {
  const CudaFacts facts = FindCuda();
  EXPECT_EQ(MissingNccl(1), facts.gpus.empty() ? StrCat("no GPU: ", facts.missing) : std::string());
}

TEST_F(NcclTest, RanksThatShareAGpuAreRefusedByAll) {
  const auto connect = [](Communicator& world) {
    const auto nccl = MakeNcclAllReduce(world, world.rank() == 0 ? "gpu 0" : "gpu 1");
    nccl->Connect(*MakeStream(kRehearsed));
    world.Barrier();
  };
  const auto expect_refusal = [&] {
    RunWorld([&](Communicator& world) {
      const Error error = ErrorOf([&] { connect(world); });
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_EQ(error.text(), "rank 1 on this host and rank 2 on this host compute on one GPU (gpu 1)");
      EXPECT_THAT(error.hint(), HasSubstr("NCCL 2.30 and newer know (this is 2.28.9)"));
    });
  };
  expect_refusal();
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  expect_refusal();  // this NCCL does not know it
  ::setenv("FAKE_NCCL_VERSION", "23007", 1);
  RunWorld(connect);
}

TEST_F(NcclTest, ARankThatDoesNotComeIsWaitedForUntilTheDeadline) {
  RunWorld(
      [](Communicator& world) {
        const auto nccl = MakeNcclAllReduce(world, PlaceOf(world));
        const auto stream = MakeStream(kRehearsed);
        nccl->Connect(*stream);
        if (world.rank() == 2) return;
        std::vector<float> values(10);
        const Error error =
            ErrorOf([&] { nccl->Queue(Message{std::span<float>(values)}, {}, Wire::kFloat32, *stream); });
        EXPECT_EQ(error.kind(), ErrorKind::kPeer);
        EXPECT_EQ(error.text(),
                  StrCat(world.NameOf(world.rank()), " has waited 0.3 s for the other ranks in ncclGroupEnd"));
        EXPECT_EQ(nccl->Failure(), "the sums were given up");
        nccl->Queue(Message{std::span<float>(values)}, {}, Wire::kFloat32, *stream);  // begins nothing
      },
      std::chrono::milliseconds(300));
  EXPECT_EQ(TakeCounts().aborts, 2);
}

TEST_F(NcclTest, WhatAnotherRankSaysEndsTheWait) {
  RunWorld([](Communicator& world) {
    const auto nccl = MakeNcclAllReduce(world, PlaceOf(world));
    const auto stream = MakeStream(kRehearsed);
    nccl->Connect(*stream);
    if (world.rank() == 1) return world.Fail("record 17 is damaged");
    std::vector<float> values(10);
    const Error error = ErrorOf([&] { nccl->Queue(Message{std::span<float>(values)}, {}, Wire::kFloat32, *stream); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_EQ(error.text(), "rank 1 on this host: record 17 is damaged");
  });
  EXPECT_EQ(TakeCounts().aborts, 2);
}

TEST_F(NcclTest, ErrorsOfNcclNameTheRankAndWhatNcclSays) {
  RunWorld([](Communicator& world) {
    const auto nccl = MakeNcclAllReduce(world, PlaceOf(world));
    const auto stream = MakeStream(kRehearsed);
    nccl->Connect(*stream);
    world.Barrier();
    if (world.is_first()) FailWith(ncclRemoteError);
    world.Barrier();
    const std::string failure = nccl->Failure();
    EXPECT_EQ(failure, StrCat("NCCL: a sum of gradients failed on ", world.NameOf(world.rank()),
                              ": remote process exited (socket 7 was closed)"));
    std::vector<float> values(10);
    const Error error = ErrorOf([&] { nccl->Queue(Message{std::span<float>(values)}, {}, Wire::kFloat32, *stream); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_THAT(error.text(), HasSubstr("ncclGroupEnd failed on rank"));
    EXPECT_THAT(error.hint(), HasSubstr("another rank or the network failed"));
    world.Barrier();
  });
}

// Gradients of a program whose stream is rehearsed.
struct Gradients {
  explicit Gradients(Communicator& world)
      : exchange(world,
                 std::make_unique<DeviceExchange>(kRehearsed, MakeNcclAllReduce(world, StrCat("gpu ", world.rank())))),
        stream(MakeStream(kRehearsed)) {
    for (int64_t i = 0; i < 4; ++i) {
      values.emplace_back(static_cast<size_t>(100 + i));
      const TensorType type{DType::kFloat32, Shape{100 + i}, {}};
      ProgramSide(exchange).Announce(i, StrCat("layer", i), Tensor(type, values.back().data()));
    }
    exchange.CheckAnnounced();
  }
  void Queue(float value) {
    for (int64_t i = 0; i < 4; ++i) {
      std::ranges::fill(values[static_cast<size_t>(i)], value);
      ProgramSide(exchange).Begin(i, *stream);
    }
    for (int64_t i = 0; i < 4; ++i) ProgramSide(exchange).End(i, *stream);
  }
  std::vector<std::vector<float>> values;
  GradientExchange exchange;
  std::unique_ptr<Stream> stream;
};

TEST_F(NcclTest, GradientsAreExchangedByAPlan) {
  RunWorld([](Communicator& world) {
    Gradients gradients(world);
    ExchangePlanner planner(world, {.fusion = "none"}, gradients.exchange.device());
    planner.Measure(1 << 12);
    planner.Plan(gradients.exchange);
    EXPECT_THAT(planner.Describe(), HasSubstr("in 4 buckets · nccl · float32"));
    for (int step = 1; step < 5; ++step) {
      if (step == 3) planner.Plan(gradients.exchange);
      gradients.Queue(static_cast<float>(world.rank() + step));
      ProgramSide(gradients.exchange).Await(*gradients.stream);
      gradients.exchange.Check();
      for (const auto& values : gradients.values) {
        for (const float v : values) ASSERT_EQ(v, static_cast<float>(3 + 3 * step));
      }
    }
    EXPECT_EQ(gradients.exchange.Times().iterations, 2);
    EXPECT_GE(world.place().collective, 16);
    EXPECT_THAT(planner.Explain(gradients.exchange), HasSubstr("measured over 2 iterations"));
    world.Barrier();
  });
}

TEST_F(NcclTest, AGpuThatDoesNotEndIsGivenUpAfterTheDeadline) {
  RunWorld(
      [](Communicator& world) {
        Gradients gradients(world);
        ExchangePlanner planner(world, {.fusion = "single"}, gradients.exchange.device());
        planner.Measure(1024);
        planner.Plan(gradients.exchange);
        world.Barrier();
        if (world.rank() > 0) {  // hears of it as long as it waits itself
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          return gradients.exchange.Cancel("it ended after rank 0 did");
        }
        gradients.stream->Rehearse([] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); });
        ProgramSide(gradients.exchange).Await(*gradients.stream);
        const Error error = ErrorOf([&] { gradients.exchange.Check(); });
        EXPECT_EQ(error.kind(), ErrorKind::kPeer);
        EXPECT_THAT(error.text(), HasSubstr("rank 0 has waited 0.2 s for its GPU"));
        EXPECT_THAT(error.text(), HasSubstr("bucket 0 of 1, from layer \"layer0\" to \"layer3\""));
        EXPECT_EQ(world.transport().failure().find("rank 0 on this host: "), 0U);
      },
      std::chrono::milliseconds(200));
  EXPECT_EQ(TakeCounts().aborts, 3);
}

TEST_F(NcclTest, IsMeasuredAndPlannedLikeOtherAlgorithms) {
  RunWorld([](Communicator& world) {
    DeviceExchange device(kRehearsed, MakeNcclAllReduce(world, PlaceOf(world)));
    device.Connect();
    for (const char* algorithm : {"auto", "nccl"}) {
      ExchangePlanner planner(world, {.algorithm = algorithm, .has_fixed_order = false}, &device);
      planner.Measure(1 << 18);
      EXPECT_EQ(planner.costs().Of("nccl").points().size(), 5U);  // 1 KiB to 256 KiB by fours
      EXPECT_GE(planner.costs().Of("nccl").Seconds(1 << 18), planner.costs().Of("nccl").Seconds(1024));
    }
    const auto refusal = [&](ExchangeOptions options) {
      return ErrorOf([&] { const ExchangePlanner planner(world, std::move(options), &device); }).text();
    };
    EXPECT_EQ(refusal({.algorithm = "ring"}), "algorithm \"ring\" is for gradients of CPUs: NCCL sums those of GPUs");
    EXPECT_THAT(refusal({.wire = Wire::kFloat16}), HasSubstr("wire \"float16\" is for gradients of CPUs"));
    world.Barrier();
  });
}

}  // namespace
}  // namespace moka

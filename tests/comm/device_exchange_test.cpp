// Gradients of a GPU's program, rehearsed: sums are work of streams, queued or recorded; plans change between steps;
// what goes wrong in a stream's thread ends the step with its words.
#include "comm/exchange/device_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/algorithms/algorithm.h"
#include "comm/exchange/gradient_exchange.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr int kRanks = 3;
constexpr int kGradients = 5;
constexpr Device kRehearsed{DeviceKind::kCuda, Device::kRehearsed};
using testing::HasSubstr;

// A step that fills each gradient by a number that is read when the stream comes to it, and copies the sums.
struct Program {
  explicit Program(Communicator& world)
      : communicator(world), exchange(world, MakeDeviceExchange(kRehearsed, world)), stream(MakeStream(kRehearsed)) {
    for (int i = 0; i < kGradients; ++i) {
      gradients.emplace_back(static_cast<size_t>(1000 * i + 1));
      sums.emplace_back(gradients.back().size());
      const TensorType type{DType::kFloat32, Shape{static_cast<int64_t>(gradients.back().size())}, {}};
      ProgramSide(exchange).Announce(i, StrCat("layer", i), Tensor(type, gradients.back().data()));
    }
    exchange.CheckAnnounced();
  }
  void SetPlan(const std::vector<int>& ends) {
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, communicator.rank());
    exchange.SetPlan(ends, std::vector<Schedule>(ends.size(), schedule), Wire::kFloat32);
  }
  void Queue() {
    for (size_t i = 0; i < kGradients; ++i) {
      stream->Rehearse([this, i] { std::ranges::fill(gradients[i], input + static_cast<float>(i)); });
      ProgramSide(exchange).Begin(static_cast<int64_t>(i), *stream);
    }
    for (size_t i = 0; i < kGradients; ++i) {
      ProgramSide(exchange).End(static_cast<int64_t>(i), *stream);
      stream->Rehearse([this, i] { std::ranges::copy(gradients[i], sums[i].begin()); });
    }
  }
  void Record() {
    stream->BeginRecording();
    Queue();
    recording = stream->EndRecording();
  }
  // By the recording where there is one.
  void Step(float value) {
    input = value;
    recording ? recording->Launch(*stream) : Queue();
    ProgramSide(exchange).Await(*stream);
  }
  void ExpectSums(float of_inputs) const {
    exchange.Check();
    for (size_t i = 0; i < kGradients; ++i) {
      for (const float v : sums[i]) ASSERT_EQ(v, of_inputs + kRanks * static_cast<float>(i)) << i;
    }
  }

  Communicator& communicator;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> sums;
  float input = 0;
  GradientExchange exchange;
  std::unique_ptr<Recording> recording;
  std::unique_ptr<Stream> stream;
};

void RunWorld(const std::function<void(Communicator&)>& body) {
  RunRanks(kRanks, [&, world = std::make_shared<std::vector<std::unique_ptr<Transport>>>(MakeThreadWorld(kRanks))](
                       Transport& transport) {
    Communicator communicator(std::move((*world)[static_cast<size_t>(transport.rank())]), {}, std::chrono::seconds(5));
    body(communicator);
  });
}

TEST(DeviceExchange, SumsInStepsThatAreQueuedOrRecorded) {
  RunWorld([](Communicator& world) {
    Program program(world);
    const std::vector<std::vector<int>> plans = {{kGradients}, {2, 5}, {1, 2, 3, 4, 5}};
    int64_t number = ProgramSide(program.exchange).plan_number();
    for (const std::vector<int>& ends : plans) {
      program.SetPlan(ends);
      EXPECT_GT(ProgramSide(program.exchange).plan_number(), number);
      number = ProgramSide(program.exchange).plan_number();
      program.recording.reset();
      for (int step = 0; step < 6; ++step) {
        if (step == 2) program.Record();
        program.Step(static_cast<float>(world.rank() + 10 * step));
        program.ExpectSums(static_cast<float>(3 + kRanks * 10 * step));
      }
      EXPECT_EQ(program.exchange.Times().iterations, 6);
      const std::vector<BucketTimes> times = program.exchange.Times().buckets;
      ASSERT_EQ(times.size(), ends.size());
      for (size_t b = 0; b < times.size(); ++b) {
        EXPECT_LE(times[b].ready_s, times[b].begin_s);
        EXPECT_LE(times[b].begin_s, times[b].end_s);
      }
      for (size_t i = 1; i < kGradients; ++i) {
        EXPECT_GE(program.exchange.announced().all()[i].ready_s, program.exchange.announced().all()[i - 1].ready_s);
      }
      EXPECT_GT(program.exchange.announced().all().back().ready_s, 0);
    }
    EXPECT_GE(world.place().collective, 6 * (1 + 2 + 5));
    program.exchange.device()->TakeTimesOfGradients(false);
    EXPECT_GT(ProgramSide(program.exchange).plan_number(), number);
    program.recording.reset();
    program.Record();
    program.Step(1);
    program.ExpectSums(3);
    world.Barrier();
  });
}

TEST(DeviceExchange, ARankThatEndsEndsTheOthersSteps) {
  RunWorld([](Communicator& world) {
    Program program(world);
    program.SetPlan({2, 5});
    program.Step(0);
    program.Record();
    program.Step(1);
    program.ExpectSums(3);
    if (world.rank() == 1) {
      world.Barrier();  // all have the sums
      return program.exchange.Cancel("record 17 is damaged");
    }
    try {
      world.Barrier();
      program.Step(2);
      program.exchange.Check();
      ADD_FAILURE() << "rank 1 has left";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      EXPECT_THAT(error.text(), HasSubstr("rank 1 on this host: record 17 is damaged"));
    }
  });
}

TEST(DeviceExchange, ARankThatIsSilentIsNamedAfterTheDeadline) {
  RunWorld([](Communicator& world) {
    Program program(world);
    program.SetPlan({2, 5});
    program.Step(0);
    world.SetPatience(std::chrono::milliseconds(200));
    if (world.rank() == 2) return;
    program.Step(1);
    try {
      program.exchange.Check();
      ADD_FAILURE() << "rank 2 does not come";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      EXPECT_THAT(error.text(), HasSubstr("has waited 0.2 s for rank 2"));
      EXPECT_THAT(error.text(), testing::Not(HasSubstr("bucket 1 of 2")));  // it was not come to
    }
  });
}

}  // namespace
}  // namespace moka

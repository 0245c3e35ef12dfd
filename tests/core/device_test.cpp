// The promises of every device, on the CPU's streams and, where there is a GPU, on its own.
#include "core/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/device/device_backend.h"
#include "tests/gate.h"

namespace moka {
namespace {

constexpr int64_t kBytes = 1 << 20;

class DeviceTest : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    const CudaFacts facts = FindCuda();
    if (GetParam() == DeviceKind::kCuda && facts.gpus.empty()) GTEST_SKIP() << "no NVIDIA GPU: " << facts.missing;
  }

  // Pinned bytes: first, first + 1, ...
  DeviceBuffer Counting(uint8_t first, int64_t bytes = kBytes) const {
    DeviceBuffer buffer = AllocatePinned(device_, bytes);
    auto* values = reinterpret_cast<uint8_t*>(buffer.data());
    std::iota(values, values + bytes, first);
    return buffer;
  }
  static bool AreEqual(const DeviceBuffer& a, const DeviceBuffer& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
  }
  static bool IsZero(const DeviceBuffer& a) {
    return std::all_of(a.data(), a.data() + a.bytes(), [](std::byte b) { return b == std::byte{0}; });
  }
  static void SleepMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

  const Device device_{GetParam(), 0};
};

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                         [](const auto& kind) { return kind.param == DeviceKind::kCpu ? "Cpu" : "Cuda"; });

TEST_P(DeviceTest, WorkOfAStreamKeepsItsOrder) {
  const auto stream = MakeStream(device_);
  EXPECT_EQ(stream->device(), device_);
  const DeviceBuffer first = Counting(1);
  const DeviceBuffer second = Counting(77);
  const DeviceBuffer first_back = AllocatePinned(device_, kBytes);
  const DeviceBuffer second_back = AllocatePinned(device_, kBytes);
  EXPECT_TRUE(IsZero(first_back));
  const DeviceBuffer on_device = stream->Allocate(kBytes);
  EXPECT_EQ(on_device.bytes(), kBytes);
  for (int i = 0; i < 20; ++i) {
    stream->CopyToDevice(on_device.data(), first.data(), kBytes);
    stream->CopyToHost(first_back.data(), on_device.data(), kBytes);
    stream->CopyToDevice(on_device.data(), second.data(), kBytes);
    stream->CopyToHost(second_back.data(), on_device.data(), kBytes);
  }
  stream->Synchronize();
  EXPECT_TRUE(AreEqual(first_back, first));
  EXPECT_TRUE(AreEqual(second_back, second));
}

// More of them than a queue has room for.
TEST_P(DeviceTest, CallsComeInOrderAndNoneIsLost) {
  constexpr int kCalls = 3000;
  struct Counter {
    int next = 0;
    int wrong = 0;
  } counter;
  struct Numbered {
    Counter* counter;
    int number;
  };
  std::vector<Numbered> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back({&counter, i});
  {
    const auto stream = MakeStream(device_);
    for (Numbered& each : calls) {
      const auto count = [](void* argument) {
        const auto* call = static_cast<const Numbered*>(argument);
        if (call->counter->next++ != call->number) ++call->counter->wrong;
      };
      stream->Call(count, &each);
    }
  }  // whose end waits for all
  EXPECT_EQ(counter.next, kCalls);
  EXPECT_EQ(counter.wrong, 0);
}

TEST_P(DeviceTest, CallsReturnBeforeTheWorkIsDone) {
  Gate gate;
  const auto stream = MakeStream(device_);
  const auto copied = MakeEvent(device_);
  const DeviceBuffer from = Counting(5);
  const DeviceBuffer to = AllocatePinned(device_, kBytes);
  const DeviceBuffer on_device = stream->Allocate(kBytes);
  stream->Call(&Gate::Pass, &gate);
  stream->CopyToDevice(on_device.data(), from.data(), kBytes);
  stream->CopyToHost(to.data(), on_device.data(), kBytes);
  stream->Record(*copied);
  SleepMs(20);
  EXPECT_FALSE(copied->IsDone());
  EXPECT_TRUE(IsZero(to));
  gate.Open();
  copied->Wait();
  EXPECT_TRUE(copied->IsDone());
  EXPECT_TRUE(AreEqual(to, from));
}

TEST_P(DeviceTest, AStreamWaitsForAnothersEvent) {
  Gate gate;
  const auto writer = MakeStream(device_);
  const auto reader = MakeStream(device_);
  const auto written = MakeEvent(device_);
  const auto read = MakeEvent(device_);
  const DeviceBuffer from = Counting(9);
  const DeviceBuffer to = AllocatePinned(device_, kBytes);
  const DeviceBuffer on_device = writer->Allocate(kBytes);
  writer->Call(&Gate::Pass, &gate);
  writer->CopyToDevice(on_device.data(), from.data(), kBytes);
  writer->Record(*written);
  reader->WaitFor(*written);
  reader->CopyToHost(to.data(), on_device.data(), kBytes);
  reader->Record(*read);
  SleepMs(20);
  EXPECT_FALSE(read->IsDone());
  gate.Open();
  read->Wait();
  EXPECT_TRUE(AreEqual(to, from));
}

TEST_P(DeviceTest, StreamsWithoutAnEventDoNotWaitForEachOther) {
  Gate gate;
  const auto held = MakeStream(device_);
  const auto free = MakeStream(device_);
  const auto passed = MakeEvent(device_);
  const DeviceBuffer from = Counting(3);
  const DeviceBuffer to = AllocatePinned(device_, kBytes);
  const DeviceBuffer on_device = free->Allocate(kBytes);
  held->Call(&Gate::Pass, &gate);
  held->Record(*passed);
  free->CopyToDevice(on_device.data(), from.data(), kBytes);
  free->CopyToHost(to.data(), on_device.data(), kBytes);
  free->Synchronize();
  EXPECT_TRUE(AreEqual(to, from));
  EXPECT_FALSE(passed->IsDone());
  gate.Open();
  held->Synchronize();
  EXPECT_TRUE(passed->IsDone());
}

TEST_P(DeviceTest, AnEventStandsForItsLastRecord) {
  Gate gate;
  const auto stream = MakeStream(device_);
  const auto other = MakeStream(device_);
  const auto event = MakeEvent(device_);
  EXPECT_TRUE(event->IsDone()) << "before its first record";
  event->Wait();
  other->WaitFor(*event);
  other->Synchronize();
  stream->Record(*event);
  event->Wait();
  other->WaitFor(*event);
  stream->Call(&Gate::Pass, &gate);
  stream->Record(*event);
  EXPECT_FALSE(event->IsDone());
  other->Synchronize();  // what it waits for is the record before
  gate.Open();
  event->Wait();
  EXPECT_TRUE(event->IsDone());
}

TEST_P(DeviceTest, EventsTellTheTimeBetweenThem) {
  constexpr int kMs = 30;
  const auto stream = MakeStream(device_);
  const auto before = MakeEvent(device_);
  const auto after = MakeEvent(device_);
  stream->Record(*before);
  stream->Call([](void* /*argument*/) { SleepMs(kMs); }, nullptr);
  stream->Record(*after);
  after->Wait();
  EXPECT_GE(after->MillisSince(*before), kMs - 1);
  EXPECT_LE(after->MillisSince(*before), 100 * kMs);
  EXPECT_LE(before->MillisSince(*after), 1 - kMs);
}

// Bytes that went back at once would be taken, and written to, by whoever asks next.
TEST_P(DeviceTest, MemoryGoesBackInTheStreamsOrder) {
  Gate gate;
  auto stream = MakeStream(device_);
  const auto other = MakeStream(device_);
  const DeviceBuffer from = Counting(7);
  const DeviceBuffer zeros = AllocatePinned(device_, kBytes);
  const DeviceBuffer to = AllocatePinned(device_, kBytes);
  DeviceBuffer on_device = stream->Allocate(kBytes);
  stream->CopyToDevice(on_device.data(), from.data(), kBytes);
  stream->Call(&Gate::Pass, &gate);
  stream->CopyToHost(to.data(), on_device.data(), kBytes);
  on_device = {};
  EXPECT_EQ(on_device.data(), nullptr);
  std::vector<DeviceBuffer> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(other->Allocate(kBytes));
    other->CopyToDevice(others.back().data(), zeros.data(), kBytes);
  }
  other->Synchronize();
  gate.Open();
  stream->Synchronize();
  EXPECT_TRUE(AreEqual(to, from));
  const DeviceBuffer outlives = stream->Allocate(kBytes);
  stream.reset();
  EXPECT_NE(outlives.data(), nullptr);
}

TEST_P(DeviceTest, ARecordingHoldsTheWorkOfStreamsThatJoinIt) {
  const auto stream = MakeStream(device_);
  const auto other = MakeStream(device_);
  const auto fork = MakeEvent(device_);
  const auto join = MakeEvent(device_);
  const DeviceBuffer from = Counting(1);
  const DeviceBuffer to = AllocatePinned(device_, kBytes);
  const DeviceBuffer first = stream->Allocate(kBytes);
  const DeviceBuffer second = stream->Allocate(kBytes);
  stream->Synchronize();
  stream->BeginRecording();
  stream->CopyToDevice(first.data(), from.data(), kBytes);
  stream->Record(*fork);
  other->WaitFor(*fork);
  other->CopyOnDevice(second.data(), first.data(), kBytes);
  other->Record(*join);
  stream->WaitFor(*join);
  stream->CopyToHost(to.data(), second.data(), kBytes);
  const std::unique_ptr<Recording> recording = stream->EndRecording();
  other->Synchronize();
  EXPECT_TRUE(IsZero(to)) << "recorded work is not done yet";
  for (uint8_t round = 1; round < 4; ++round) {
    std::memset(from.data(), round, kBytes);
    recording->Launch(*stream);
    stream->Synchronize();
    EXPECT_TRUE(AreEqual(to, from));
    EXPECT_TRUE(join->IsDone());
    EXPECT_GE(join->MillisSince(*fork), 0);
  }
  other->Zero(second.data(), kBytes);  // the stream works by itself again
  other->CopyToHost(to.data(), second.data(), kBytes);
  other->Synchronize();
  EXPECT_TRUE(IsZero(to));
}

TEST(Devices, ARecordingThatLeavesAStreamBehindIsRefused) {
  const auto stream = MakeStream(Device{});
  const auto other = MakeStream(Device{});
  const auto event = MakeEvent(Device{});
  const DeviceBuffer buffer = stream->Allocate(kBytes);
  stream->BeginRecording();
  stream->Record(*event);
  other->WaitFor(*event);
  other->Zero(buffer.data(), kBytes);
  EXPECT_THROW(stream->EndRecording(), Error);
}

TEST_P(DeviceTest, MemoryThatIsNotThereIsRefusedWithItsSize) {
  const auto stream = MakeStream(device_);
  try {
    stream->Allocate(int64_t{1} << 52);
    FAIL() << "4 PiB were given";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.text(), testing::HasSubstr("out of memory allocating 4096.0 TiB"));
  }
  EXPECT_EQ(stream->Allocate(kBytes).bytes(), kBytes) << "the stream still works";
}

TEST(Devices, AGpuThatIsNotThereIsRefusedWithAHint) {
  const CudaFacts facts = FindCuda();
  EXPECT_EQ(facts.gpus.empty(), !facts.missing.empty());
  const Device none{DeviceKind::kCuda, 1000};
  const std::vector<std::function<void()>> asks = {[&] { MakeStream(none); }, [&] { MakeEvent(none); },
                                                   [&] { AllocatePinned(none, kBytes); }};
  for (const auto& ask : asks) {
    try {
      ask();
      FAIL() << "GPU 1000 was given";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.text(), testing::HasSubstr(CudaRuntime().empty() ? "built without CUDA" : "GPU 1000: cuda"));
      EXPECT_NE(error.hint(), "");
    }
  }
}

TEST(Devices, ErrorsOfMemoryNameWhatWasAskedAndWhatIsFree) {
  const Error error = OutOfDeviceMemory({DeviceKind::kCuda, 1}, int64_t{3} << 30, int64_t{1} << 30, int64_t{80} << 30);
  EXPECT_EQ(error.text(), "GPU 1: out of memory allocating 3.00 GiB: 1.00 GiB of 80.0 GiB are free");
  EXPECT_NE(error.hint(), "");
}

TEST(Devices, HaveNames) {
  EXPECT_EQ(NameOf(Device{}), "CPU");
  EXPECT_EQ(NameOf(Device{DeviceKind::kCuda, 2}), "GPU 2");
}

}  // namespace
}  // namespace moka

// Sums by NCCL on GPUs: queued, recorded and launched again. Ranks are threads; two share a GPU where there is no
// second and NCCL can.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "comm/device/make_all_reduce.h"
#include "comm/device/nccl_all_reduce.h"
#include "comm/exchange/device_exchange.h"
#include "core/error.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr int64_t kCount = 100'003;

// Two buckets, of one gradient and of two, in steps that set each gradient to a multiple of rank + 1 before.
void SumOnGpus(int ranks) {
  const auto gpus = static_cast<int>(FindCuda().gpus.size());
  RunRanks(ranks, [&, world = std::make_shared<std::vector<std::unique_ptr<Transport>>>(MakeThreadWorld(ranks))](
                      Transport& transport) {
    const int rank = transport.rank();
    Communicator communicator(std::move((*world)[static_cast<size_t>(rank)]), {}, std::chrono::seconds(60));
    const Device device{DeviceKind::kCuda, rank % gpus};
    DeviceExchange exchange(device, MakeDeviceAllReduce(device, communicator));
    exchange.Connect();
    const auto stream = MakeStream(device);
    const int64_t bytes = kCount * 4;
    const DeviceBuffer on_host = AllocatePinned(device, 3 * bytes);
    const DeviceBuffer sums = AllocatePinned(device, 3 * bytes);
    const DeviceBuffer gradients = stream->Allocate(3 * bytes);
    stream->Synchronize();
    const auto gradient = [&](int i) { return reinterpret_cast<float*>(gradients.data() + i * bytes); };
    std::vector<DeviceBucket> buckets(2);
    buckets[0] = {0, 1, Message{std::span<float>(gradient(0), kCount)}};
    buckets[1] = {1, 3, Message{std::span<float>(gradient(1), kCount)}};
    buckets[1].message.Append(gradient(2), kCount);
    exchange.SetPlan(std::move(buckets), Wire::kFloat32);
    const auto queue = [&] {
      for (int i = 0; i < 3; ++i) {
        stream->CopyToDevice(gradients.data() + i * bytes, on_host.data() + i * bytes, bytes);
        exchange.Begin(i, *stream);
      }
      for (int i = 0; i < 3; ++i) exchange.End(i, *stream);
      stream->CopyToHost(sums.data(), gradients.data(), 3 * bytes);
    };
    std::unique_ptr<Recording> recording;
    for (int step = 1; step < 6; ++step) {
      auto* values = reinterpret_cast<float*>(on_host.data());
      for (int64_t i = 0; i < 3 * kCount; ++i) values[i] = static_cast<float>((rank + 1) * step + i % 7);
      if (step == 2) {
        stream->BeginRecording();
        queue();
        recording = stream->EndRecording();
      }
      recording ? recording->Launch(*stream) : queue();
      const StreamWait wait = exchange.Wait(*stream, communicator.patience(), [] { return false; });
      ASSERT_TRUE(wait.is_done) << wait.failure;
      ASSERT_EQ(wait.failure, "");
      const auto* found = reinterpret_cast<const float*>(sums.data());
      for (int64_t i = 0; i < 3 * kCount; ++i) {
        ASSERT_EQ(found[i], static_cast<float>(ranks * (ranks + 1) / 2 * step + ranks * (i % 7))) << step << " " << i;
      }
      EXPECT_EQ(exchange.EndedBuckets(), 2);
      const DeviceExchange::StepTimes first = exchange.TimesOf(0);
      const DeviceExchange::StepTimes second = exchange.TimesOf(1);
      EXPECT_LE(first.ready_s, first.begin_s);
      EXPECT_LE(first.begin_s, first.end_s);
      EXPECT_LE(first.end_s, second.begin_s);
    }
    communicator.Barrier();
  });
}

TEST(NcclGpuTest, OneRankSums) {
  if (const std::string missing = MissingNccl(1); !missing.empty()) GTEST_SKIP() << missing;
  SumOnGpus(1);
}

TEST(NcclGpuTest, TwoRanksSum) {
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  if (const std::string missing = MissingNccl(2); !missing.empty()) GTEST_SKIP() << missing;
  SumOnGpus(2);
}

}  // namespace
}  // namespace moka

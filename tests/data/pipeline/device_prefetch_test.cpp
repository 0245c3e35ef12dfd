// Batches ahead in a device's memory: on the CPU's streams and, where there is a GPU, on its own.
#include "data/pipeline/device_prefetch.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "tests/data/data_fixture.h"
#include "tests/data/pipeline/allocation_count.h"
#include "tests/gate.h"

namespace moka {
namespace {

constexpr int64_t kBatch = 12;

void SleepMs(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Batch b holds b in every place of its first top, and b + 0.5 in those of its second.
class NumberedPipeline : public Pipeline {
 public:
  struct Options {
    int64_t floats = 20;  // a sample
    int64_t delay_ms = 0;
    int64_t fails_at = -1;  // this batch,
    int fails = 0;          // so many times
    bool lends = false;     // memory that it writes -1 to when the next batch is taken
    Device device = {};
  };
  explicit NumberedPipeline(const Options& options) : options_(options) {
    types_ = {{DType::kFloat32, {kBatch, options.floats}, {}}, {DType::kFloat32, {kBatch}, {}}};
    top_names_ = {"data", "label"};
    for (size_t i = 0; i < lent_.size() && options.lends; ++i) {
      for (const TensorType& type : types_) {
        memory_.push_back(AllocatePinned(options.device, type.Bytes()));
        lent_[i].emplace_back(type, memory_.back().data());
      }
    }
  }
  int64_t epoch_size() const override { return 0; }
  bool LendsTo(const Device& device) const override { return options_.lends && device == options_.device; }
  int64_t made() const { return made_; }

 protected:
  void Deliver(std::span<const Tensor> tops, PipelineStatistics& /*statistics*/) override { Make(tops); }
  std::span<const Tensor> Lend(PipelineStatistics& /*statistics*/) override {
    if (!options_.lends) return {};
    for (const Tensor& top : lent_[turn_]) std::ranges::fill(top.as<float>(), -1.0F);
    turn_ = 1 - turn_;
    Make(lent_[turn_]);
    return lent_[turn_];
  }

 private:
  void Make(std::span<const Tensor> tops) {
    const int64_t number = position() / kBatch;
    if (options_.delay_ms > 0) SleepMs(options_.delay_ms);
    if (number == options_.fails_at && options_.fails > 0) {
      --options_.fails;
      throw Error(ErrorKind::kBadData, StrCat("batch ", number, " is torn"));
    }
    std::ranges::fill(tops[0].as<float>(), static_cast<float>(number));
    std::ranges::fill(tops[1].as<float>(), static_cast<float>(number) + 0.5F);
    ++made_;
  }

  Options options_;
  std::vector<DeviceBuffer> memory_;
  std::array<std::vector<Tensor>, 2> lent_;
  size_t turn_ = 0;
  std::atomic<int64_t> made_ = 0;
};

class DevicePrefetchTest : public DataTest, public testing::WithParamInterface<DeviceKind> {
 protected:
  void SetUp() override {
    SetStderrLevel(LogLevel::kError);
    const CudaFacts facts = FindCuda();
    if (GetParam() == DeviceKind::kCuda && facts.gpus.empty()) GTEST_SKIP() << "no NVIDIA GPU: " << facts.missing;
    step_ = MakeStream(device_);
    room_ = AllocatePinned(device_, int64_t{8} << 20);
  }

  std::unique_ptr<NumberedPipeline> Numbered(NumberedPipeline::Options options) const {
    options.device = device_;
    return std::make_unique<NumberedPipeline>(options);
  }
  std::unique_ptr<DevicePrefetch> Prefetch(std::unique_ptr<Pipeline> pipeline, int64_t slots = 2) const {
    return std::make_unique<DevicePrefetch>(std::move(pipeline), step_.get(), slots);
  }

  // The step's work: the batch goes to the host, to be looked at when all steps are done.
  void Read(std::span<const Tensor> tops) {
    std::vector<std::span<std::byte>>& batch = read_.emplace_back();
    for (const Tensor& top : tops) {
      const int64_t bytes = top.type().Bytes();
      ASSERT_LE(used_ + bytes, room_.bytes());
      batch.emplace_back(room_.data() + used_, static_cast<size_t>(bytes));
      used_ += bytes;
      step_->CopyToHost(batch.back().data(), static_cast<const std::byte*>(top.raw()), bytes);
    }
  }
  void Read(DevicePrefetch& prefetch, int64_t batches) {
    for (int64_t i = 0; i < batches; ++i) Read(prefetch.Next());
  }
  // Returns a hash of each batch read so far, and forgets them.
  std::vector<uint64_t> Hashes(const std::vector<TensorType>& types) {
    step_->Synchronize();
    std::vector<uint64_t> hashes;
    for (const auto& batch : read_) {
      std::vector<Tensor> tops;
      for (size_t i = 0; i < types.size(); ++i) tops.emplace_back(types[i], batch[i].data());
      hashes.push_back(HashBatch(tops));
    }
    Forget();
    return hashes;
  }
  // The numbers that a NumberedPipeline gave them; -100 where a batch is not of one piece.
  std::vector<int> Numbers() {
    step_->Synchronize();
    std::vector<int> numbers;
    for (const auto& batch : read_) {
      const auto values = [&](size_t top) {
        return std::span(reinterpret_cast<const float*>(batch[top].data()), batch[top].size() / 4);
      };
      const float number = values(0)[0];
      const bool is_whole = std::ranges::count(values(0), number) == std::ssize(values(0)) &&
                            std::ranges::count(values(1), number + 0.5F) == std::ssize(values(1));
      numbers.push_back(is_whole ? static_cast<int>(number) : -100);
    }
    Forget();
    return numbers;
  }
  void Forget() {
    read_.clear();
    used_ = 0;
  }
  static std::vector<int> From(int first, int count) {
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(first + i);
    return numbers;
  }

  const Device device_{GetParam(), 0};
  std::unique_ptr<Stream> step_;
  DeviceBuffer
      room_;  // for what is read: a GPU may wait for all its work when memory is pinned, a closed gate for ever
  int64_t used_ = 0;
  std::vector<std::vector<std::span<std::byte>>> read_;  // batches, tops
};

INSTANTIATE_TEST_SUITE_P(All, DevicePrefetchTest, testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                         [](const auto& kind) { return kind.param == DeviceKind::kCpu ? "Cpu" : "Cuda"; });

// Steps that take now longer and now shorter than a batch.
TEST_P(DevicePrefetchTest, HashesAreThoseOfThePipeline) {
  constexpr int64_t kBatches = 200;
  std::vector<Datum> datums;
  for (int i = 0; i < 150; ++i) datums.push_back(RawDatum(3, 6, 6, i * 7, i % 5));
  WriteDatabase(At("db"), datums);
  const std::string data = StrCat(
      "name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'db' backend: LMDB shuffle: true "
      "batch_size: ",
      kBatch, " } transform_param { crop_size: 4 mirror: true ");
  const std::string mixed = data + "mixing { mixup_alpha: 1 classes: 5 } }";
  const std::string dummy =
      "type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 12 dim: 5 } data_filler { type: 'gaussian' } }";
  for (const auto& [text, lends] : {std::pair{data + "}", true}, {mixed, false}, {dummy, false}}) {
    LayerParameter layer;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer));
    const PipelineOptions options{.phase = TRAIN, .seed = 42, .base_folder = folder_, .device = device_};
    const auto plain = OpenPipeline(layer, options);
    EXPECT_EQ(plain->LendsTo(device_), lends) << text;
    EXPECT_FALSE(plain->LendsTo({DeviceKind::kCuda, 7})) << text;
    std::vector<uint64_t> expected;
    for (int64_t i = 0; i < kBatches; ++i) expected.push_back(HashBatch(plain->NextInPlace()));
    for (const int64_t slots : {1, 2, 3}) {
      const auto prefetch = Prefetch(OpenPipeline(layer, options), slots);
      std::mt19937 random(7);
      for (int64_t i = 0; i < kBatches; ++i) {
        const std::span<const Tensor> tops = prefetch->Next();
        if (random() % 4 == 0) step_->Call([](void* /*argument*/) { SleepMs(1); }, nullptr);
        if (random() % 8 == 0) SleepMs(1);
        Read(tops);
      }
      EXPECT_EQ(Hashes(prefetch->types()), expected) << slots << " slots: " << text;
      EXPECT_EQ(prefetch->position(), kBatches * plain->batch_size());
      EXPECT_EQ(prefetch->statistics().samples, kBatches * plain->batch_size());
    }
  }
}

// The first step stands still: all that may be prepared meanwhile is, and nothing is written over that is still needed,
// be it a slot, its staging memory or what the pipeline lent.
TEST_P(DevicePrefetchTest, NothingIsOverwrittenBeforeItIsRead) {
  for (const bool lends : {false, true}) {
    for (const int slots : {1, 2, 3}) {
      Gate gate;
      const auto prefetch = Prefetch(Numbered({.lends = lends}), slots);
      const std::span<const Tensor> first = prefetch->Next();
      step_->Call(&Gate::Pass, &gate);
      Read(first);
      // As many as Next() gives without waiting for the step.
      const int64_t more = lends ? slots : 2 * slots - 1;
      Read(*prefetch, more);
      SleepMs(20);
      gate.Open();
      Read(*prefetch, 10);
      EXPECT_EQ(Numbers(), From(0, static_cast<int>(more) + 11)) << slots << (lends ? " lent" : " staged");
    }
  }
}

// Copies of 24 MB take milliseconds, in which the step has time to read too early.
TEST_P(DevicePrefetchTest, TheStepWaitsForSlowCopies) {
  for (const bool lends : {false, true}) {
    const auto prefetch = Prefetch(Numbered({.floats = 500000, .lends = lends}), 2);
    for (int i = 0; i < 6; ++i) {
      const std::span<const Tensor> tops = prefetch->Next();
      const Tensor data = tops[0];
      const int64_t end = data.type().shape.Count() - kBatch;
      const Tensor last({DType::kFloat32, {kBatch}, {}}, data.as<float>().data() + end);
      Read(std::vector<Tensor>{last, tops[1]});
    }
    EXPECT_EQ(Numbers(), From(0, 6));
  }
}

TEST_P(DevicePrefetchTest, AsManyBatchesAreAheadAsThereAreSlots) {
  for (const int slots : {1, 2, 3}) {
    auto pipeline = Numbered({});
    const NumberedPipeline& numbered = *pipeline;
    const auto prefetch = Prefetch(std::move(pipeline), slots);
    EXPECT_EQ(numbered.made(), 0) << "nothing is read before it is known where to begin";
    prefetch->Next();
    for (int i = 0; i < 2000 && numbered.made() < slots; ++i) SleepMs(1);
    SleepMs(10);
    EXPECT_EQ(numbered.made(), slots) << "the one that is read among them";
    prefetch->Next();
    for (int i = 0; i < 2000 && numbered.made() < slots + 1; ++i) SleepMs(1);
    SleepMs(10);
    EXPECT_EQ(numbered.made(), slots + 1);
    EXPECT_EQ(prefetch->position(), 2 * kBatch);
  }
}

TEST_P(DevicePrefetchTest, AnErrorComesInItsTurnAndCanBeTriedAgain) {
  for (const bool lends : {false, true}) {
    for (const int slots : {1, 2, 3}) {
      const auto prefetch = Prefetch(Numbered({.fails_at = 5, .fails = 2, .lends = lends}), slots);
      Read(*prefetch, 5);
      for (int i = 0; i < 2; ++i) {
        try {
          prefetch->Next();
          FAIL() << "no error was thrown";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kBadData);
          EXPECT_EQ(error.text(), "batch 5 is torn");
        }
        EXPECT_EQ(prefetch->position(), 5 * kBatch);
      }
      Read(*prefetch, 4);
      EXPECT_EQ(Numbers(), From(0, 9));
      EXPECT_EQ(prefetch->position(), 9 * kBatch);
    }
  }
}

TEST_P(DevicePrefetchTest, ContinuesAtAnyBatch) {
  for (const bool lends : {false, true}) {
    const auto prefetch = Prefetch(Numbered({.lends = lends}), 3);
    std::mt19937 random(3);
    for (int i = 0; i < 60; ++i) {
      const auto at = static_cast<int>(random() % 100);
      prefetch->Seek(at * kBatch);
      EXPECT_EQ(prefetch->position(), at * kBatch);
      const auto count = static_cast<int>(random() % 6);
      Read(*prefetch, count);
      EXPECT_EQ(prefetch->position(), (at + count) * kBatch) << "batches ahead are not handed out";
      // Another one that begins there goes on as if there had been no break.
      const auto resumed = Prefetch(Numbered({.lends = lends}), 2);
      resumed->Seek(prefetch->position());
      Read(*resumed, 3);
      Read(*prefetch, 1);
      std::vector<int> expected = From(at, count + 3);
      expected.push_back(at + count);
      EXPECT_EQ(Numbers(), expected);
    }
  }
}

// A batch handed out before a Seek is read whole: the step that stands still has its batch, and so has a copy that
// waits for that step.
TEST_P(DevicePrefetchTest, SeekingDropsOnlyWhatIsAhead) {
  for (const bool lends : {false, true}) {
    Gate slot_gate;
    const auto two = Prefetch(Numbered({.lends = lends}), 2);
    const std::span<const Tensor> read_late = two->Next();
    step_->Call(&Gate::Pass, &slot_gate);
    Read(read_late);
    two->Seek(50 * kBatch);
    Read(*two, 1);
    SleepMs(20);
    slot_gate.Open();
    EXPECT_THAT(Numbers(), testing::ElementsAre(0, 50));

    Gate copy_gate;
    const auto one = Prefetch(Numbered({.lends = lends}), 1);
    const std::span<const Tensor> first = one->Next();
    step_->Call(&Gate::Pass, &copy_gate);
    Read(first);
    Read(*one, 1);
    const std::jthread opener([&] {
      SleepMs(30);
      copy_gate.Open();
    });
    one->Seek(60 * kBatch);
    Read(*one, 2);
    EXPECT_THAT(Numbers(), testing::ElementsAre(0, 1, 60, 61));
  }
}

// Whatever is under way: copies, a step that still reads, a pipeline that makes a batch, one that has failed.
TEST_P(DevicePrefetchTest, EndsAtAnyMoment) {
  for (int i = 0; i < 40; ++i) {
    const auto prefetch = Prefetch(Numbered({.delay_ms = i % 3, .fails_at = i, .fails = 1, .lends = i % 2 == 0}), 3);
    if (i % 5 == 1) step_->Call([](void* /*argument*/) { SleepMs(3); }, nullptr);
    Read(*prefetch, i % 5);
  }
  EXPECT_EQ(Numbers().size(), 80U);
}

TEST_P(DevicePrefetchTest, AllocatesNothingOnceItRuns) {
  for (const bool lends : {false, true}) {
    const auto prefetch = Prefetch(Numbered({.lends = lends}), 2);
    for (int i = 0; i < 20; ++i) prefetch->Next();
    const int64_t before = AllocationCount();
    for (int i = 0; i < 200; ++i) prefetch->Next();
    EXPECT_EQ(AllocationCount(), before);
  }
}

TEST_P(DevicePrefetchTest, CountsWhatTheStepWaitedAndWhatCopiesTook) {
  constexpr int kBatches = 24;
  constexpr int64_t kMs = 10;
  constexpr int64_t kCounted = kBatches - 5;  // those of the last slots and of the first batch are not known
  const auto slow_input = Prefetch(Numbered({.delay_ms = kMs}));
  for (int i = 0; i < kBatches; ++i) slow_input->Next();
  EXPECT_GE(slow_input->statistics().wait_micros, kCounted * kMs * 1000 / 2);
  EXPECT_EQ(slow_input->statistics().batches, kBatches);
  const auto slow_step = Prefetch(Numbered({.floats = 20000}));
  for (int i = 0; i < kBatches; ++i) {
    slow_step->Next();
    step_->Call([](void* /*argument*/) { SleepMs(kMs); }, nullptr);
  }
  EXPECT_LE(slow_step->statistics().wait_micros, kCounted * kMs * 1000 / 2);
  EXPECT_GT(slow_step->statistics().copy_micros, 0);
  EXPECT_LE(slow_step->statistics().copy_micros, kCounted * kMs * 1000) << "waiting for the step is not copying";
}

TEST(DevicePrefetchOfTheCpu, GivesThePipelinesOwnMemory) {
  auto pipeline = std::make_unique<NumberedPipeline>(NumberedPipeline::Options{.lends = true});
  NumberedPipeline& numbered = *pipeline;
  DevicePrefetch prefetch(std::move(pipeline), nullptr);
  for (int i = 0; i < 5; ++i) {
    const std::span<const Tensor> tops = prefetch.Next();
    EXPECT_EQ(tops[0].as<float>()[7], static_cast<float>(i));
    EXPECT_EQ(numbered.made(), i + 1) << "nothing ahead but what the pipeline has";
    EXPECT_EQ(prefetch.position(), (i + 1) * kBatch);
  }
  prefetch.Seek(9 * kBatch);
  EXPECT_EQ(prefetch.Next()[1].as<float>()[0], 9.5F);
  EXPECT_EQ(prefetch.statistics().batches, 6);
  EXPECT_EQ(prefetch.statistics().copy_micros, 0);
}

}  // namespace
}  // namespace moka

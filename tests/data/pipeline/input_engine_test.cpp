// The engine of the input pipeline: batches do not depend on workers, ranks and resumption, whatever the order; what it
// counts, keeps and tells.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>

#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "data/pipeline/prefetch.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

constexpr int kRecords = 150;
constexpr int64_t kBatch = 12;

class InputEngine : public DataTest {
 protected:
  InputEngine() {
    SetStderrLevel(LogLevel::kError);
    std::vector<Datum> datums;
    for (int i = 0; i < kRecords; ++i) {
      datums.push_back(RawDatum(3, 6, 6, i * 7, i < 90 ? 0 : i < 130 ? 1 : 2));
    }
    WriteDatabase(At("db"), datums);
    std::string weights;
    for (int i = 0; i < kRecords; ++i) weights += StrCat(i % 5, "\n");
    Write("weights.txt", weights);
  }

  static LayerParameter Layer(const std::string& sampling, const std::string& more = "") {
    LayerParameter layer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        StrCat(
            "name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'db' backend: LMDB batch_size: ",
            kBatch, " shuffle: true ", more, "} transform_param { crop_size: 4 mirror: true } ", sampling),
        &layer));
    return layer;
  }
  std::unique_ptr<Pipeline> Open(const LayerParameter& layer, int64_t threads = 2, int64_t rank = 0,
                                 int64_t world = 1) const {
    return OpenPipeline(
        layer, {.phase = TRAIN, .seed = 42, .rank = rank, .world = world, .threads = threads, .base_folder = folder_});
  }

  struct Tops {
    explicit Tops(const Pipeline& pipeline) : data(pipeline.types()[0]), labels(pipeline.types()[1]) {}
    std::array<Tensor, 2> tensors() const { return {data.tensor(), labels.tensor()}; }
    OwnedTensor data;
    OwnedTensor labels;
  };
  static std::vector<uint64_t> Hashes(Pipeline& pipeline, int batches) {
    const Tops tops(pipeline);
    std::vector<uint64_t> hashes;
    for (int i = 0; i < batches; ++i) {
      pipeline.Next(tops.tensors());
      hashes.push_back(HashBatch(tops.tensors()));
    }
    return hashes;
  }
  std::string ErrorOfOpening(const std::string& sampling) const {
    return ErrorOf([&] { Open(Layer(sampling)); });
  }

  const std::vector<std::string> samplings_ = {
      "", "sampling_param { block: 8 window: 3 }", "sampling_param { balance: CLASSES }",
      "sampling_param { balance: WEIGHTS class_weight: 1 class_weight: 0 class_weight: 2.5 }",
      "sampling_param { balance: WEIGHTS weight_file: 'weights.txt' }"};
};

TEST_F(InputEngine, HashesAreThoseOfAnyNumberOfWorkers) {
  std::map<uint64_t, std::string> firsts;
  for (const std::string& sampling : samplings_) {
    const std::vector<uint64_t> expected = Hashes(*Open(Layer(sampling), 1), 40);
    EXPECT_EQ(std::set<uint64_t>(expected.begin(), expected.end()).size(), 40U);
    EXPECT_TRUE(firsts.emplace(expected[0], sampling).second) << sampling << " is like " << firsts[expected[0]];
    for (const int64_t threads : {2, 8, 0}) {
      EXPECT_EQ(Hashes(*Open(Layer(sampling), threads), 40), expected) << sampling << " " << threads;
    }
  }
}

TEST_F(InputEngine, ResumingAtAnyOfAHundredBatchesContinues) {
  for (const std::string& sampling : samplings_) {
    const std::vector<uint64_t> expected = Hashes(*Open(Layer(sampling)), 102);
    const auto resumed = Open(Layer(sampling));
    for (int i = 0; i < 100; ++i) {
      const int at = i * 37 % 100;
      resumed->Seek(at * kBatch);
      ASSERT_EQ(Hashes(*resumed, 2), std::vector<uint64_t>(expected.begin() + at, expected.begin() + at + 2))
          << sampling << " at batch " << at;
    }
  }
}

// Sample n of rank r is global sample n * world + r, down to its random crop.
TEST_F(InputEngine, RanksTogetherReadTheGlobalOrder) {
  constexpr int64_t kSamples = 24 * kBatch;
  constexpr int64_t kFloats = 3 * 4 * 4;
  const auto samples = [&](const LayerParameter& layer, int64_t rank, int64_t world) {
    const auto pipeline = Open(layer, 2, rank, world);
    const Tops tops(*pipeline);
    std::vector<std::vector<float>> all;
    while (static_cast<int64_t>(all.size()) < kSamples / world) {
      pipeline->Next(tops.tensors());
      const std::span<const float> data = tops.data.as<float>();
      for (int64_t i = 0; i < kBatch; ++i)
        all.emplace_back(data.begin() + i * kFloats, data.begin() + (i + 1) * kFloats);
    }
    return all;
  };
  for (const std::string& sampling : samplings_) {
    const auto whole = samples(Layer(sampling), 0, 1);
    for (const int64_t world : {2, 4}) {
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto mine = samples(Layer(sampling), rank, world);
        for (int64_t n = 0; n < kSamples / world; ++n) {
          ASSERT_EQ(mine[static_cast<size_t>(n)], whole[static_cast<size_t>(n * world + rank)]) << sampling;
        }
      }
    }
  }
}

TEST_F(InputEngine, BalancedLabelsAreBalanced) {
  const auto pipeline = Open(Layer(samplings_[2]));
  const Tops tops(*pipeline);
  for (int i = 0; i < 5; ++i) {
    pipeline->Next(tops.tensors());
    for (const float label : {0.0F, 1.0F, 2.0F}) EXPECT_EQ(std::ranges::count(tops.labels.as<float>(), label), 4);
  }
}

TEST_F(InputEngine, SamplingFieldsThatContradictAreNamed) {
  const auto expect = [&](const std::string& fields, const std::string& text) {
    EXPECT_THAT(ErrorOfOpening("sampling_param { " + fields + " }"), testing::HasSubstr(text));
  };
  expect("window: 4", "window has no effect without block");
  expect("block: 4 window: 0", "window is 0");
  expect("block: 4 balance: CLASSES", "keep one of block and balance");
  expect("class_weight: 1", "only with `balance: WEIGHTS`");
  expect("balance: WEIGHTS", "needs one of class_weight and weight_file");
  expect("balance: WEIGHTS class_weight: 1 weight_file: 'weights.txt'", "needs one of class_weight and weight_file");
  expect("balance: WEIGHTS class_weight: 1 class_weight: 1", "20 records have the label 2");
  expect("balance: WEIGHTS class_weight: 1 class_weight: -1", "class_weight is -1, expected 0 or more");
  expect("balance: WEIGHTS class_weight: 1 class_weight: 1 class_weight: 1 class_weight: 1",
         "class_weight of the label 3 is 1, and no record has that label");
  Write("weights.txt", "1\n2 3\n");
  expect("balance: WEIGHTS weight_file: 'weights.txt'", "weights.txt:2: expected one weight");
  Write("weights.txt", "1\n2\n");
  expect("balance: WEIGHTS weight_file: 'weights.txt'", "2 weights, and the data has 150 records");
  LayerParameter ordered = Layer("sampling_param { balance: CLASSES }");
  ordered.mutable_data_param()->set_shuffle(false);
  EXPECT_THAT(ErrorOf([&] { Open(ordered); }), testing::HasSubstr("set `shuffle: true`"));
  LayerParameter dummy;
  dummy.set_type("DummyData");
  dummy.mutable_sampling_param();
  EXPECT_THAT(ErrorOf([&] { Open(dummy); }), testing::HasSubstr("DummyData does not read sampling_param"));
}

TEST_F(InputEngine, StatisticsSayWhereTheTimeWent) {
  const auto pipeline = Open(Layer(""), 2);
  EXPECT_EQ(InputSentence(pipeline->statistics()), "");
  Hashes(*pipeline, 50);
  const PipelineStatistics s = pipeline->statistics();
  EXPECT_EQ(s.batches, 50);
  EXPECT_EQ(s.samples, 50 * kBatch);
  EXPECT_GE(s.made_samples, s.samples);
  EXPECT_EQ(s.threads, 2);
  EXPECT_EQ(s.most_threads, 2);
  EXPECT_GT(s.read_micros + s.decode_micros + s.transform_micros, 0);
  EXPECT_LE(s.wait_micros, s.total_micros);
  EXPECT_THAT(InputSentence(s), testing::HasSubstr("of the time for input"));
  EXPECT_THAT(StageRates(s), testing::HasSubstr("transform "));
  EXPECT_EQ(s.Since(s).samples, 0);
  EXPECT_TRUE(s.can_cache);
  EXPECT_TRUE(s.Since(s).can_cache);
  LayerParameter parts = Layer("");
  parts.mutable_transform_param()->set_resize_short(12);
  EXPECT_FALSE(Open(parts)->statistics().can_cache) << "cache_mb is refused there";
}

TEST(InputSentence, NamesTheBottleneckAndWhatHelps) {
  PipelineStatistics s{.batches = 10,
                       .samples = 80,
                       .wait_micros = 31,
                       .total_micros = 1000,
                       .threads = 1,
                       .most_threads = 2,
                       .made_samples = 100,
                       .read_micros = 80,
                       .decode_micros = 820,
                       .transform_micros = 100};
  EXPECT_EQ(
      InputSentence(s),
      "the device waited 3.1 % of the time for input: decoding takes 82 % of the workers' time; more threads (now "
      "1 of 2) would help");
  EXPECT_EQ(StageRates(s), "read 1250000/s, decode 121951/s, transform 1000000/s");
  PipelineStatistics long_run = s;
  long_run.decode_micros = 2'000'000;
  EXPECT_EQ(StageRates(long_run), "decode 50/s");
  s.threads = 2;
  EXPECT_THAT(InputSentence(s),
              testing::EndsWith("; smaller stored pictures would help; all threads (now 2 of 2) are used"))
      << "of a layer that refuses data_param.cache_mb";
  s.can_cache = true;
  EXPECT_THAT(InputSentence(s), testing::HasSubstr("data_param.cache_mb, would help; all threads (now 2 of 2)"));
  s.wait_micros = 2;
  s.idle_micros = 1000;
  EXPECT_EQ(InputSentence(s),
            "the device waited 0.2 % of the time for input: it keeps up; decoding takes 41 % of the workers' time, "
            "waiting for the device 50 % (2 threads of 2)");
}

// Where no stage explains the wait, a faster disk or more threads would not help.
TEST(InputSentence, SaysThatTheWorkersGotNoCpu) {
  PipelineStatistics s{.batches = 10,
                       .samples = 80,
                       .wait_micros = 94'000,
                       .total_micros = 100'000,
                       .threads = 1,
                       .most_threads = 2,
                       .made_samples = 100,
                       .read_micros = 60,
                       .decode_micros = 40,
                       .idle_micros = 99'900};
  EXPECT_THAT(
      InputSentence(s),
      testing::StartsWith("the device waited 94 % of the time for input: reading, decoding and transforming take "
                          "0.1 % of the workers' time; the workers did not get the CPU"));
  s.read_micros = 50'000;  // a burst of work, of which the wait is a part
  s.idle_micros = 1'000'000;
  EXPECT_THAT(InputSentence(s), testing::HasSubstr("reading takes 4.8 % of the workers' time; more threads"));
}

TEST(WorkerTuner, GrowsWhileWaitedForAndShrinksWhileFull) {
  WorkerTuner tuner = WorkerTuner::UpTo(4);
  EXPECT_EQ(tuner.threads(), 2);
  const auto stretch = [&](int64_t wait_micros, bool all_full) {
    for (int i = 0; i < 8; ++i) tuner.Observe(wait_micros, 10'000, all_full);
  };
  for (int i = 0; i < 5; ++i) stretch(1000, false);
  EXPECT_EQ(tuner.threads(), 4);
  for (int i = 0; i < 3; ++i) stretch(0, true);
  EXPECT_EQ(tuner.threads(), 4);
  stretch(0, true);
  EXPECT_EQ(tuner.threads(), 3);
  stretch(1000, false);  // that was one too few: the next step back is put off
  EXPECT_EQ(tuner.threads(), 4);
  for (int i = 0; i < 7; ++i) stretch(0, true);
  EXPECT_EQ(tuner.threads(), 4);
  stretch(0, true);
  EXPECT_EQ(tuner.threads(), 3);
  for (int i = 0; i < 100; ++i) stretch(0, true);
  EXPECT_EQ(tuner.threads(), 1);
  WorkerTuner fixed = WorkerTuner::Fixed(3);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(fixed.Observe(10'000, 10'000, false));
}

TEST_F(InputEngine, PicturesDecodedInPartHaveBothStages) {
  LmdbWriter writer(At("pictures"));
  for (int i = 0; i < 8; ++i) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(EncodeJpeg(Gradient(160, 120, 3)));
    writer.Put(LmdbKey(i, "p"), datum.SerializeAsString());
  }
  writer.Finish();
  LayerParameter layer = Layer("", "");
  layer.mutable_data_param()->set_source("pictures");
  layer.mutable_transform_param()->set_crop_size(64);
  layer.mutable_transform_param()->mutable_rand_resized_crop();
  const auto pipeline = Open(layer);
  Hashes(*pipeline, 10);
  const PipelineStatistics s = pipeline->statistics();
  EXPECT_GT(s.decode_micros, 0);
  EXPECT_GT(s.transform_micros, 0);
}

TEST_F(InputEngine, CachedPicturesAreTheSame) {
  LmdbWriter writer(At("pictures"));
  for (int i = 0; i < 20; ++i) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_label(i);
    datum.set_data(EncodeJpeg(Gradient(20 + i, 16, 3)));
    writer.Put(LmdbKey(i, "p"), datum.SerializeAsString());
  }
  writer.Finish();
  const auto open = [&](const std::string& more) {
    LayerParameter layer = Layer("", more);
    layer.mutable_data_param()->set_source("pictures");
    return Open(layer);
  };
  const auto plain = open("");
  const auto cached = open("cache_mb: 1");
  EXPECT_EQ(Hashes(*cached, 30), Hashes(*plain, 30));
  const PipelineStatistics s = cached->statistics();
  EXPECT_GE(s.cached_samples, s.made_samples - 2 * 20 - 2);  // two workers may decode one picture at the same time
  EXPECT_GT(s.cache_bytes, 20 * 16 * 30 * 3);
  EXPECT_LT(s.cache_bytes, 1 << 20);
  EXPECT_EQ(plain->statistics().cached_samples, 0);
}

TEST_F(InputEngine, TheCacheKeepsItsLimit) {
  PictureCache cache(10, 40'000);
  const Image image = Gradient(100, 50, 3);  // 15,000 bytes
  for (int i = 0; i < 10; ++i) cache.Offer(i, image, static_cast<float>(i));
  cache.Offer(1, image, 99);
  EXPECT_LE(cache.bytes(), 40'000);
  ASSERT_NE(cache.Find(1), nullptr);
  EXPECT_EQ(cache.Find(1)->label, 1);
  EXPECT_EQ(cache.Find(1)->image.pixels, image.pixels);
  EXPECT_EQ(cache.Find(2), nullptr);
}

TEST_F(InputEngine, RecordsAskedForAheadAreTheSame) {
  const LmdbReader fits(At("db"), LmdbReader::Access::kShuffled);
  EXPECT_FALSE(fits.reads_ahead());
  EXPECT_FALSE(LmdbReader(At("db"), LmdbReader::Access::kSequential, 1).reads_ahead());
  const LmdbReader large(At("db"), LmdbReader::Access::kShuffled, 1);
  EXPECT_TRUE(large.reads_ahead());
  for (int64_t i = 0; i < large.size(); ++i) {
    large.WillNeed(i);
    EXPECT_EQ(large.value(i), fits.value(i));
  }
}

}  // namespace
}  // namespace moka

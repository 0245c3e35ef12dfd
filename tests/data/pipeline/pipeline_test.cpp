// Batches of every layer type: order, workers, seeks, bad records, faults at their fields.
#include "data/pipeline/open_pipeline.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/text.h"
#include "core/threads/cpu_list.h"
#include "core/threads/cpus.h"
#include "tests/data/pipeline/allocation_count.h"
#include "tests/data/pipeline/pipelines_fixture.h"

namespace moka {
namespace {

TEST_F(Pipelines, BatchesInPlaceAreThoseThatAreCopied) {
  WriteRecords(7);
  for (const char* more : {"", "transform_param { mixing { mixup_alpha: 1 classes: 7 } }"}) {
    const auto copied = OpenPipeline(DataLayer("batch_size: 3 shuffle: true", more), Options());
    const auto in_place = OpenPipeline(DataLayer("batch_size: 3 shuffle: true", more), Options());
    for (int i = 0; i < 12; ++i) {
      const Batch expected = NextOf(*copied);
      if (i == 8) in_place->Seek(24);  // where it is
      if (i == 5) {                    // by turns with copies
        EXPECT_EQ(NextOf(*in_place), expected);
        continue;
      }
      const std::span<const Tensor> tops = in_place->NextInPlace();
      ASSERT_EQ(tops.size(), 2U);
      const auto data = tops[0].as<const float>();
      const auto labels = tops[1].as<const float>();
      EXPECT_EQ(Batch({{data.begin(), data.end()}, {labels.begin(), labels.end()}}), expected) << i;
    }
    EXPECT_EQ(in_place->position(), 36);
    in_place->NextInPlace();
    in_place->Seek(3);
    copied->Seek(3);
    const Batch expected = NextOf(*copied);
    const auto data = in_place->NextInPlace()[0].as<const float>();
    EXPECT_EQ(std::vector<float>(data.begin(), data.end()), expected.data);
  }
}

TEST_F(Pipelines, DataDeliversRecordsInOrder) {
  WriteRecords(5);
  const auto pipeline = OpenPipeline(DataLayer("batch_size: 3"), Options());
  ASSERT_EQ(pipeline->types().size(), 2U);
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[3,3,6,6]");
  EXPECT_EQ(pipeline->types()[1].ToString(), "float32[3]");
  EXPECT_THAT(pipeline->top_names(), testing::ElementsAre("data", "label"));
  EXPECT_EQ(pipeline->epoch_size(), 5);
  const Batch first = NextOf(*pipeline);
  EXPECT_THAT(first.labels, testing::ElementsAre(0, 1, 2));
  for (size_t i = 0; i < 3 * 108; ++i) ASSERT_EQ(first.data[i], static_cast<uint8_t>(i / 108 * 11 + i % 108));
  EXPECT_THAT(LabelsOf(*pipeline, 2), testing::ElementsAre(3, 4, 0, 1, 2, 3));
  EXPECT_EQ(pipeline->position(), 9);
  EXPECT_EQ(pipeline->statistics().samples, 9);
}

// DetectNet's labels: a database of floats, without numbers of classes.
TEST_F(Pipelines, RecordsMayBeRowsOfFloats) {
  std::vector<Datum> datums(3);
  for (int i = 0; i < 3; ++i) {
    datums[static_cast<size_t>(i)].set_channels(1);
    datums[static_cast<size_t>(i)].set_height(2);
    datums[static_cast<size_t>(i)].set_width(16);
    for (int k = 0; k < 32; ++k)
      datums[static_cast<size_t>(i)].add_float_data(static_cast<float>(i) * 100.5F - static_cast<float>(k));
  }
  WriteDatabase(At("db"), datums);
  const auto pipeline = OpenPipeline(
      Layer("name: 'label' type: 'Data' top: 'label' data_param { source: 'db' backend: LMDB batch_size: 2 }"),
      Options());
  ASSERT_EQ(pipeline->types().size(), 1U);
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,1,2,16]");
  const Batch batch = NextOf(*pipeline);
  for (int k = 0; k < 64; ++k) {
    EXPECT_EQ(batch.data[static_cast<size_t>(k)], static_cast<float>(k / 32) * 100.5F - static_cast<float>(k % 32));
  }
}

TEST_F(Pipelines, BatchesDoNotDependOnTheNumberOfWorkers) {
  WriteRecords(37);
  const LayerParameter layer =
      DataLayer("batch_size: 20 shuffle: true prefetch: 3", "transform_param { crop_size: 4 mirror: true }");
  std::vector<Batch> expected;
  const auto one = OpenPipeline(layer, Options(1));
  for (int i = 0; i < 30; ++i) expected.push_back(NextOf(*one));
  for (const int64_t threads : {2, 3, 8}) {
    const auto many = OpenPipeline(layer, Options(threads));
    for (int i = 0; i < 30; ++i) ASSERT_EQ(NextOf(*many), expected[static_cast<size_t>(i)]) << threads;
  }
}

// Where a team is bound to CPUs, so is the thread that opens the pipeline. The runtime reads that before main(): this
// program runs itself.
TEST_F(Pipelines, WorkersRunWhereTheProcessMayAndNotWhereTheTeamIsBound) {
  constexpr const char* kAllCpus = "MOKA_TEST_ALL_CPUS";
  if (std::getenv(kAllCpus) == nullptr) {
    const std::string line =
        StrCat(kAllCpus, "=", CpuListText(AffinityOf(0)), " OMP_PLACES=threads OMP_PROC_BIND=close '",
               std::filesystem::read_symlink("/proc/self/exe").string(), "' --gtest_filter=Pipelines.WorkersRun* >&2");
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    return;
  }
  WriteRecords(32);
  const auto pipeline = OpenPipeline(DataLayer("batch_size: 4"), Options(3));
  NextOf(*pipeline);
  ASSERT_EQ(AffinityOf(0).size(), 1U);
  int at_large = 0;
  for (int tries = 0; at_large < 3 && tries < 20'000; ++tries) {
    at_large = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const int id = std::stoi(task.path().filename().string());
      if (id != getpid() && CpuListText(AffinityOf(id)) == std::getenv(kAllCpus)) ++at_large;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(at_large, 3);
}

// A run's clock starts with its first batch (docs/time_to_accuracy.md).
TEST_F(Pipelines, NothingIsReadAheadBeforeTheFirstBatch) {
  WriteRecords(40);
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto expected = OpenPipeline(DataLayer("batch_size: 8 shuffle: true"), Options(1));
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(NextOf(*expected));
  const auto before = threads();
  for (const bool in_place : {false, true}) {
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 8 shuffle: true"), Options(3));
    pipeline->Seek(24);
    pipeline->Seek(16);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(threads(), before);
    EXPECT_EQ(pipeline->statistics().made_samples, 0);
    if (in_place) {
      const auto data = pipeline->NextInPlace()[0].as<const float>();
      EXPECT_EQ(std::vector<float>(data.begin(), data.end()), batches[2].data);
    } else {
      EXPECT_EQ(NextOf(*pipeline), batches[2]);
    }
    EXPECT_EQ(threads(), before + 3);
    EXPECT_GE(pipeline->statistics().made_samples, 8);
    EXPECT_EQ(NextOf(*pipeline), batches[3]);
  }
}

TEST_F(Pipelines, SeekContinuesBitEqual) {
  WriteRecords(37);
  const LayerParameter layer =
      DataLayer("batch_size: 7 shuffle: true", "transform_param { crop_size: 4 mirror: true }");
  const auto whole = OpenPipeline(layer, Options());
  std::vector<Batch> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(NextOf(*whole));
  const auto resumed = OpenPipeline(layer, Options());
  for (const int i : {13, 0, 5, 6, 19}) {
    resumed->Seek(i * 7);
    ASSERT_EQ(NextOf(*resumed), expected[static_cast<size_t>(i)]) << i;
  }
  whole->Seek(3);  // not at a batch's border
  EXPECT_EQ(whole->position(), 3);
  const Batch odd = NextOf(*whole);
  EXPECT_TRUE(std::equal(odd.labels.begin(), odd.labels.begin() + 4, expected[0].labels.begin() + 3));
}

TEST_F(Pipelines, APoolOfSeveralBatchesIsShuffled) {
  WriteRecords(12);
  const auto labels = [this](const std::string& fields) {
    return LabelsOf(*OpenPipeline(DataLayer("batch_size: 2 " + fields), Options()), 6);
  };
  EXPECT_EQ(labels("shuffle_pool_size: 1"), labels(""));
  EXPECT_EQ(labels("shuffle_pool_size: 10"), labels("shuffle: true"));
  EXPECT_NE(labels("shuffle_pool_size: 10"), labels(""));
}

TEST_F(Pipelines, RanksReadDisjointParts) {
  WriteRecords(12);
  std::vector<float> all;
  for (const int64_t rank : {0, 1, 2}) {
    PipelineOptions options = Options();
    options.rank = rank;
    options.world = 3;
    const auto labels = LabelsOf(*OpenPipeline(DataLayer("batch_size: 2 shuffle: true"), options), 2);
    all.insert(all.end(), labels.begin(), labels.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(Pipelines, RandSkipMovesTheStartTheSameForAllRanks) {
  WriteRecords(50);
  const auto labels = LabelsOf(*OpenPipeline(DataLayer("batch_size: 2 rand_skip: 40"), Options()), 1);
  EXPECT_GT(labels[0], 0);
  EXPECT_LT(labels[0], 40);
  EXPECT_EQ(labels[1], labels[0] + 1);
  EXPECT_EQ(LabelsOf(*OpenPipeline(DataLayer("batch_size: 2 rand_skip: 40"), Options()), 1), labels);
}

TEST_F(Pipelines, SteadyStateAllocatesNothing) {
  WriteRecords(40);
  const auto pipeline = OpenPipeline(
      DataLayer("batch_size: 16 shuffle: true", "transform_param { crop_size: 4 mirror: true mean_value: 3 }"),
      Options());
  const OwnedTensor data(pipeline->types()[0]);
  const OwnedTensor labels(pipeline->types()[1]);
  const std::array<Tensor, 2> tops = {data.tensor(), labels.tensor()};
  // Each worker allocates once, at its first part, which a busy machine may put off for long: the stretches go on until
  // one allocates nothing.
  const int64_t begin = AllocationCount();
  std::vector<int64_t> allocations;
  for (int stretch = 0; stretch < 20 && (allocations.empty() || allocations.back() != 0); ++stretch) {
    const int64_t before = AllocationCount();
    for (int i = 0; i < 100; ++i) pipeline->Next(tops);
    allocations.push_back(AllocationCount() - before);
  }
  EXPECT_EQ(allocations.back(), 0);
  EXPECT_LE(AllocationCount() - begin, 16);  // what all workers' first parts take, not something a batch
}

// Whatever comes first, and however they are stored; a set of one kind stays as it is.
TEST_F(Pipelines, GrayAmongColoredIsReadAsThreeEqualChannels) {
  const Datum color = RawDatum(3, 4, 4, 0, 0);
  const Datum gray = RawDatum(1, 4, 4, 100, 1);
  Image image;
  image.Resize(4, 4, 1);
  for (size_t i = 0; i < 16; ++i) image.pixels[i] = static_cast<uint8_t>(100 + i);
  Datum file = gray;
  file.set_data(EncodePng(image));
  file.set_encoded(true);
  for (const auto& [first, second] : {std::pair(color, gray), {gray, color}, {color, file}, {file, color}}) {
    std::filesystem::remove_all(At("db"));
    WriteDatabase(At("db"), {first, second});
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 2"), Options());
    EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,3,4,4]");
    const Batch batch = NextOf(*pipeline);
    const size_t gray_at = first.channels() == 1 ? 0 : 48;
    for (size_t i = 0; i < 48; ++i) {
      ASSERT_EQ(batch.data[gray_at + i], 100 + i % 16);
      ASSERT_EQ(batch.data[48 - gray_at + i], i);
    }
  }
  std::filesystem::remove_all(At("db"));
  WriteDatabase(At("db"), {gray, file});
  EXPECT_EQ(OpenPipeline(DataLayer("batch_size: 2"), Options())->types()[0].ToString(), "float32[2,1,4,4]");
}

TEST_F(Pipelines, RawRecordsAreForcedToChannels) {
  WriteDatabase(At("db"), {RawDatum(3, 4, 4, 0, 0), RawDatum(1, 4, 4, 100, 1)});
  const auto color = OpenPipeline(DataLayer("batch_size: 2", "transform_param { force_color: true }"), Options());
  EXPECT_EQ(color->types()[0].ToString(), "float32[2,3,4,4]");
  const Batch colored = NextOf(*color);
  const auto gray = OpenPipeline(DataLayer("batch_size: 2", "transform_param { force_gray: true }"), Options());
  EXPECT_EQ(gray->types()[0].ToString(), "float32[2,1,4,4]");
  const Batch grayed = NextOf(*gray);
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_EQ(colored.data[i], i);
    EXPECT_EQ(colored.data[48 + i], 100 + i % 16);
  }
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(grayed.data[i], i + 19) << "0.114 i + 0.587 (i + 16) + 0.299 (i + 32)";
    EXPECT_EQ(grayed.data[16 + i], 100 + i);
  }
}

// Floats and other numbers of channels are no pictures.
TEST_F(Pipelines, WhatIsNoPictureKeepsItsChannels) {
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(2);
  floats.add_float_data(0.5F);
  floats.add_float_data(-3);
  WriteDatabase(At("db"), {floats});
  WriteDatabase(At("pairs"), {RawDatum(2, 1, 2, 7, 0)});
  LayerParameter layer = DataLayer("batch_size: 1", "transform_param { force_color: true }");
  EXPECT_THAT(NextOf(*OpenPipeline(layer, Options())).data, testing::ElementsAre(0.5F, -3));
  layer.mutable_data_param()->set_source("pairs");
  EXPECT_THAT(NextOf(*OpenPipeline(layer, Options())).data, testing::ElementsAre(7, 8, 9, 10));
}

TEST_F(Pipelines, FieldsThatAreMissingOrWrongAreNamed) {
  WriteRecords(3);
  const auto error = [&](const std::string& text) { return ErrorOf([&] { OpenPipeline(Layer(text), Options()); }); };
  EXPECT_THAT(error("name: 'd' type: 'Data' top: 'x' data_param { backend: LMDB batch_size: 1 }"),
              testing::HasSubstr("data_param.source is not set"));
  EXPECT_THAT(
      error("name: 'd' type: 'Data' top: 'x' data_param { source: 'db' batch_size: 1 }"),
      testing::HasSubstr("backend LEVELDB (the default when none is set) is not supported; set `backend: LMDB`"));
  EXPECT_THAT(error("name: 'd' type: 'Data' top: 'x' data_param { source: 'db' backend: LMDB }"),
              testing::HasSubstr("batch_size is 0, expected 1.."));
  EXPECT_THAT(error("name: 'd' type: 'Data' top: 'x' data_param { source: 'db' backend: LMDB batch_size: 4294967295 }"),
              testing::HasSubstr("batch_size is 4294967295"));
  EXPECT_THAT(error("name: 'd' type: 'Data' data_param { source: 'db' backend: LMDB batch_size: 1 }"),
              testing::HasSubstr("has 0 tops"));
  EXPECT_THAT(error("name: 'd' type: 'ImgData' top: 'x'"), testing::HasSubstr("did you mean \"ImageData\"?"));
  EXPECT_THAT(error("name: 'd' type: 'Data' top: 'x' include { phase: TEST } data_param { source: 'db' }"),
              testing::HasSubstr("is not part of the TRAIN phase"));
  EXPECT_THAT(error("name: 'd' type: 'Data' top: 'x' data_param { source: 'nope' backend: LMDB batch_size: 1 }"),
              testing::HasSubstr("cannot open LMDB"));
}

TEST_F(Pipelines, EmptyDatabaseIsRefused) {
  WriteDatabase(At("db"), {});
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(DataLayer("batch_size: 2"), Options()); }), testing::HasSubstr("no records"));
}

TEST_F(Pipelines, EncodedRecordsAndDeprecatedFieldsWork) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(EncodePng(Gradient(12, 10, 1)));
  WriteDatabase(At("db"), {datum});
  const auto pipeline =
      OpenPipeline(DataLayer("batch_size: 1 crop_size: 8 scale: 0.5 force_encoded_color: true"), Options());
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[1,3,8,8]");
  const Batch batch = NextOf(*pipeline);
  EXPECT_EQ(batch.data[0], batch.data[64]);
}

TEST_F(Pipelines, ClosingWithFullQueuesAndSeekingWhileBusyEnds) {
  WriteRecords(64);
  for (int i = 0; i < 30; ++i) {
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 8 prefetch: 2"), Options(4));
    pipeline->Seek(i * 8);
    if (i % 2 == 0) NextOf(*pipeline);
    pipeline->Seek(0);
  }
}

}  // namespace
}  // namespace moka

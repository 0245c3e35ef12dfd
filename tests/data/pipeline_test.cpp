#include "data/pipeline/pipeline.h"

#include <google/protobuf/text_format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/log.h"
#include "core/text.h"
#include "core/threads/cpus.h"
#include "tests/data/allocation_count.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

class Pipelines : public DataTest {
 protected:
  Pipelines() { SetStderrLevel(LogLevel::kError); }

  static LayerParameter Layer(const std::string& text) {
    LayerParameter layer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer)) << text;
    return layer;
  }
  static LayerParameter DataLayer(const std::string& fields, const std::string& more = "") {
    return Layer("name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'db' backend: LMDB " +
                 fields + " } " + more);
  }
  PipelineOptions Options(int64_t threads = 2) const {
    return {.phase = TRAIN, .seed = 42, .threads = threads, .base_folder = folder_};
  }

  // 3x6x6 records whose labels are their numbers.
  void WriteRecords(int count) const {
    std::vector<Datum> datums;
    for (int i = 0; i < count; ++i) datums.push_back(RawDatum(3, 6, 6, i * 11, i));
    WriteDatabase(At("db"), datums);
  }

  struct Batch {
    std::vector<float> data;
    std::vector<float> labels;
    friend bool operator==(const Batch&, const Batch&) = default;
  };
  static Batch NextOf(Pipeline& pipeline) {
    const OwnedTensor data(pipeline.types()[0]);
    if (pipeline.types().size() == 1) {
      pipeline.Next(std::vector<Tensor>{data.tensor()});
      return {{data.as<float>().begin(), data.as<float>().end()}, {}};
    }
    const OwnedTensor labels(pipeline.types()[1]);
    pipeline.Next(std::vector<Tensor>{data.tensor(), labels.tensor()});
    return {{data.as<float>().begin(), data.as<float>().end()}, {labels.as<float>().begin(), labels.as<float>().end()}};
  }
  static std::vector<float> LabelsOf(Pipeline& pipeline, int batches) {
    std::vector<float> labels;
    for (int i = 0; i < batches; ++i) {
      const Batch batch = NextOf(pipeline);
      labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    }
    return labels;
  }
};

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

class BadRecords : public Pipelines {
 protected:
  // Ten records of which 3, 4 and 8 are bad: junk bytes, a wrong size, a damaged JPEG.
  BadRecords() {
    LmdbWriter writer(At("db"));
    for (int i = 0; i < 10; ++i) {
      Datum datum = RawDatum(3, 6, 6, i, i);
      if (i == 4) datum.mutable_data()->pop_back();
      if (i == 8) {
        datum.set_encoded(true);
        datum.set_data("\xFF\xD8\xFFjunk");
      }
      writer.Put(LmdbKey(i, "rec"), i == 3 ? "\x08\x80" : datum.SerializeAsString());
    }
    writer.Finish();
  }
};

TEST_F(BadRecords, StopNamesKeyIndexAndFile) {
  const auto pipeline = OpenPipeline(DataLayer("batch_size: 2"), Options());
  NextOf(*pipeline);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(ErrorOf([&] { NextOf(*pipeline); }),
              StrCat("record \"00000003_rec\" (index 3) of ", At("db").string(),
                     ": not a Datum: the record ends inside a number at byte 2 of 2"));
  }
  EXPECT_EQ(pipeline->position(), 2);
  pipeline->Seek(5);
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(5, 6));
}

TEST_F(BadRecords, SkipTakesTheNextGoodRecordAndCounts) {
  for (const int64_t threads : {1, 4}) {
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 10 on_bad_record: SKIP"), Options(threads));
    EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(0, 1, 2, 5, 5, 5, 6, 7, 9, 9));
    EXPECT_EQ(pipeline->statistics().bad_records, 3);
  }
}

TEST_F(BadRecords, SkipLogsEachKeyOnce) {
  SetLogFile(At("log"));
  {
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 10 on_bad_record: SKIP"), Options());
    for (int i = 0; i < 5; ++i) NextOf(*pipeline);
  }
  SetLogFile({});
  const std::string log = ReadFile(At("log"));
  for (const char* key : {"00000003_rec", "00000004_rec", "00000008_rec"}) {
    const size_t first = log.find(key);
    ASSERT_NE(first, std::string::npos) << key;
    EXPECT_EQ(log.find(key, first + 1), std::string::npos) << key;
  }
}

TEST_F(Pipelines, AllRecordsBadIsAnError) {
  LmdbWriter writer(At("db"));
  for (int i = 0; i < 3; ++i) writer.Put(LmdbKey(i, "x"), "\x08\x80");
  writer.Finish();
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(DataLayer("batch_size: 2 on_bad_record: SKIP"), Options()); }),
              testing::HasSubstr("00000002_x"));
}

TEST_F(Pipelines, RecordsOfAnotherShapeAreNamed) {
  WriteDatabase(At("db"), {RawDatum(3, 6, 6, 0, 0), RawDatum(3, 6, 5, 0, 0)});
  const auto pipeline = OpenPipeline(DataLayer("batch_size: 2"), Options());
  EXPECT_THAT(ErrorOf([&] { NextOf(*pipeline); }),
              testing::HasSubstr("(index 1) of " + At("db").string() +
                                 ": its sample is [3,6,5], the first record's was [3,6,6]; all samples of a layer"));
}

// Whatever comes first, and however they are stored; a set of one kind stays as it is.
TEST_F(Pipelines, GreyAmongColouredIsReadAsThreeEqualChannels) {
  const Datum colour = RawDatum(3, 4, 4, 0, 0);
  const Datum grey = RawDatum(1, 4, 4, 100, 1);
  Image image;
  image.Resize(4, 4, 1);
  for (size_t i = 0; i < 16; ++i) image.pixels[i] = static_cast<uint8_t>(100 + i);
  Datum file = grey;
  file.set_data(EncodePng(image));
  file.set_encoded(true);
  for (const auto& [first, second] : {std::pair(colour, grey), {grey, colour}, {colour, file}, {file, colour}}) {
    std::filesystem::remove_all(At("db"));
    WriteDatabase(At("db"), {first, second});
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 2"), Options());
    EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,3,4,4]");
    const Batch batch = NextOf(*pipeline);
    const size_t grey_at = first.channels() == 1 ? 0 : 48;
    for (size_t i = 0; i < 48; ++i) {
      ASSERT_EQ(batch.data[grey_at + i], 100 + i % 16);
      ASSERT_EQ(batch.data[48 - grey_at + i], i);
    }
  }
  std::filesystem::remove_all(At("db"));
  WriteDatabase(At("db"), {grey, file});
  EXPECT_EQ(OpenPipeline(DataLayer("batch_size: 2"), Options())->types()[0].ToString(), "float32[2,1,4,4]");
}

TEST_F(Pipelines, RawRecordsAreForcedToChannels) {
  WriteDatabase(At("db"), {RawDatum(3, 4, 4, 0, 0), RawDatum(1, 4, 4, 100, 1)});
  const auto colour = OpenPipeline(DataLayer("batch_size: 2", "transform_param { force_color: true }"), Options());
  EXPECT_EQ(colour->types()[0].ToString(), "float32[2,3,4,4]");
  const Batch coloured = NextOf(*colour);
  const auto grey = OpenPipeline(DataLayer("batch_size: 2", "transform_param { force_gray: true }"), Options());
  EXPECT_EQ(grey->types()[0].ToString(), "float32[2,1,4,4]");
  const Batch greyed = NextOf(*grey);
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_EQ(coloured.data[i], i);
    EXPECT_EQ(coloured.data[48 + i], 100 + i % 16);
  }
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(greyed.data[i], i + 19) << "0.114 i + 0.587 (i + 16) + 0.299 (i + 32)";
    EXPECT_EQ(greyed.data[16 + i], 100 + i);
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

TEST_F(Pipelines, ImageDataReadsItsList) {
  for (int i = 0; i < 4; ++i) Write(StrCat("img/a ", i, ".png"), EncodePng(Gradient(20 + i, 10, 3)));
  Write("list.txt", "a 0.png 3\na 1.png 1\r\n\na 2.png -2\na 3.png 7");
  const std::string fields = "source: 'list.txt' root_folder: 'img/' batch_size: 4 new_height: 8 new_width: 9";
  const auto pipeline = OpenPipeline(
      Layer("name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { " + fields + " }"), Options());
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[4,3,8,9]");
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(3, 1, -2, 7));
  const auto grey =
      OpenPipeline(Layer("name: 'd' type: 'ImageData' top: 'data' image_data_param { shuffle: true is_color: false " +
                         fields + " }"),
                   Options());
  EXPECT_EQ(grey->types()[0].ToString(), "float32[4,1,8,9]");
  NextOf(*grey);
}

TEST_F(Pipelines, ImageListFaultsHaveTheirLine) {
  Write("list.txt", "a.png 1\nb.png\n");
  const LayerParameter layer = Layer("name: 'd' type: 'ImageData' top: 'x' image_data_param { source: 'list.txt' }");
  EXPECT_EQ(
      ErrorOf([&] { OpenPipeline(layer, Options()); }),
      StrCat(At("list.txt").string(), ":2: expected \"path label\" with a whole number as label, found \"b.png\""));
  Write("list.txt", "missing.png 1\n");
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(layer, Options()); }),
              testing::StartsWith("image \"missing.png\" (index 0) of "));
}

TEST_F(Pipelines, DummyDataFillsConstantsOnceAndRandomsAgain) {
  const auto pipeline = OpenPipeline(
      Layer(
          "name: 'd' type: 'DummyData' top: 'a' top: 'b' dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 500 } "
          "data_filler { value: 4 } data_filler { type: 'gaussian' mean: 1 std: 0.5 } }"),
      Options());
  const Batch first = NextOf(*pipeline);
  const Batch second = NextOf(*pipeline);
  EXPECT_THAT(first.data, testing::Each(4.0F));
  EXPECT_EQ(first.data, second.data);
  EXPECT_NE(first.labels, second.labels);
  double sum = 0;
  for (const float value : first.labels) sum += static_cast<double>(value);
  EXPECT_NEAR(sum / 500, 1, 0.1);
  pipeline->Seek(0);
  EXPECT_EQ(NextOf(*pipeline), first);
}

TEST_F(Pipelines, DummyDataTakesTheOldFieldsAndRefusesUnknownFillers) {
  const auto pipeline = OpenPipeline(
      Layer("name: 'd' type: 'DummyData' top: 'a' dummy_data_param { num: 2 channels: 3 height: 4 width: 5 }"),
      Options());
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,3,4,5]");
  EXPECT_THAT(NextOf(*pipeline).data, testing::Each(0.0F));
  EXPECT_THAT(ErrorOf([&] {
                OpenPipeline(
                    Layer("name: 'd' type: 'DummyData' top: 'a' dummy_data_param { shape { dim: 2 } data_filler "
                          "{ type: 'gausian' } }"),
                    Options());
              }),
              testing::HasSubstr("unknown filler type \"gausian\"; did you mean \"gaussian\"?"));
}

TEST_F(Pipelines, DummyDataHasEveryFillerOfParameters) {
  const auto fill = [&](const std::string& shape, const std::string& filler) {
    return NextOf(*OpenPipeline(Layer("name: 'd' type: 'DummyData' top: 'a' dummy_data_param { shape { " + shape +
                                      " } data_filler { " + filler + " } }"),
                                Options()))
        .data;
  };
  const std::vector<float> bilinear = fill("dim: 2 dim: 1 dim: 2 dim: 2", "type: 'bilinear'");
  EXPECT_THAT(bilinear, testing::ElementsAre(0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25));
  const std::vector<float> unit = fill("dim: 2 dim: 50", "type: 'positive_unitball'");
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_GE(unit[row * 50 + i], 0);
      sum += static_cast<double>(unit[row * 50 + i]);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const std::vector<float> sparse = fill("dim: 10 dim: 100", "type: 'gaussian' std: 1 sparse: 2");
  EXPECT_NEAR(static_cast<double>(std::ranges::count(sparse, 0.0F)), 800, 80);
  EXPECT_THAT(ErrorOf([&] { fill("dim: 2 dim: 1 dim: 2 dim: 3", "type: 'bilinear'"); }),
              testing::HasSubstr("needs a square 2-D kernel"));
}

TEST_F(Pipelines, MemoryDataGoesRound) {
  const auto pipeline = OpenPipeline(Layer("name: 'd' type: 'MemoryData' top: 'a' top: 'b' memory_data_param { "
                                           "batch_size: 2 channels: 1 height: 1 width: 2 }"),
                                     Options());
  EXPECT_THAT(ErrorOf([&] { NextOf(*pipeline); }), testing::HasSubstr("was not given its samples"));
  auto& memory = dynamic_cast<MemoryPipeline&>(*pipeline);
  memory.Fill(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, std::vector<float>{0, 1, 2, 3});
  EXPECT_THAT(NextOf(*pipeline).data, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(2, 3));
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(0, 1));
  EXPECT_THAT(ErrorOf([&] {
                memory.Fill(std::vector<float>{1, 2}, std::vector<float>{0});
              }),
              testing::HasSubstr("1 samples, expected a multiple of the batch size 2"));
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

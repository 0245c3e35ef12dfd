// Batches over the ends of files, shuffles, seeks and ranks, and each mistake at its line.
#include <google/protobuf/text_format.h>

#include <cmath>
#include <set>

#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "proto/weights/hdf5_file.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

class Hdf5Data : public DataTest {
 protected:
  Hdf5Data() { SetStderrLevel(LogLevel::kError); }

  static LayerParameter Layer(const std::string& fields, const std::string& more = "top: 'data' top: 'label'") {
    LayerParameter layer;
    const std::string text =
        "name: 'h' type: 'HDF5Data' " + more + " hdf5_data_param { source: 'list.txt' " + fields + " }";
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer)) << text;
    return layer;
  }
  std::unique_ptr<Pipeline> Open(const std::string& fields, PipelineOptions options = {}) const {
    options.base_folder = folder_;
    return OpenPipeline(Layer(fields), options);
  }

  // data [rows,2] = {10 r, 10 r + 1} for r from `first`, label [rows] = r.
  void WriteRows(const std::string& name, int first, int rows, int64_t label_rows = -1) const {
    std::vector<float> data;
    std::vector<float> labels;
    for (int r = first; r < first + rows; ++r) {
      data.push_back(static_cast<float>(10 * r));
      data.push_back(static_cast<float>(10 * r + 1));
      labels.push_back(static_cast<float>(r));
    }
    labels.resize(static_cast<size_t>(label_rows < 0 ? rows : label_rows));
    Hdf5Writer writer(At(name));
    writer.AddFloats("data", {rows, 2}, data);
    writer.AddFloats("label", {static_cast<int64_t>(labels.size())}, labels);
    writer.Commit();
  }
  // Three files of 3, 1 and 4 rows, numbered on.
  void WriteThree() const {
    WriteRows("a.h5", 0, 3);
    WriteRows("b.h5", 3, 1);
    WriteRows("c.h5", 4, 4);
    Write("list.txt", "a.h5\n\n  b.h5 c.h5\n");
  }

  // Labels of the next batches; checks that the data are those of the same rows.
  static std::vector<int> RowsOf(Pipeline& pipeline, int batches) {
    std::vector<int> rows;
    const OwnedTensor data(pipeline.types()[0]);
    const OwnedTensor labels(pipeline.types()[1]);
    for (int b = 0; b < batches; ++b) {
      pipeline.Next(std::vector<Tensor>{data.tensor(), labels.tensor()});
      for (size_t i = 0; i < labels.as<float>().size(); ++i) {
        const float row = labels.as<float>()[i];
        rows.push_back(static_cast<int>(row));
        EXPECT_EQ(data.as<float>()[2 * i], 10 * row);
        EXPECT_EQ(data.as<float>()[2 * i + 1], 10 * row + 1);
      }
    }
    return rows;
  }
};

TEST_F(Hdf5Data, BatchesGoOnOverTheEndsOfFiles) {
  WriteThree();
  const auto pipeline = Open("batch_size: 5");
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[5,2]");
  EXPECT_EQ(pipeline->types()[1].ToString(), "float32[5]");
  EXPECT_EQ(pipeline->epoch_size(), 8);
  EXPECT_THAT(RowsOf(*pipeline, 3), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(pipeline->position(), 15);
}

TEST_F(Hdf5Data, ABatchMayBeLargerThanTheDataSet) {
  WriteRows("a.h5", 0, 3);
  Write("list.txt", "a.h5");
  EXPECT_THAT(RowsOf(*Open("batch_size: 7"), 1), testing::ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST_F(Hdf5Data, ShuffleKeepsEpochsWholeAndFilesTogether) {
  WriteThree();
  const auto pipeline = Open("batch_size: 4 shuffle: true", {.seed = 3});
  std::set<std::vector<int>> orders;
  for (int epoch = 0; epoch < 12; ++epoch) {
    const std::vector<int> rows = RowsOf(*pipeline, 2);
    EXPECT_THAT(rows, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    orders.insert(rows);
    // Rows of one file follow each other.
    int changes = 0;
    const auto file = [](int row) { return row < 3 ? 0 : row < 4 ? 1 : 2; };
    for (size_t i = 1; i < rows.size(); ++i) changes += static_cast<int>(file(rows[i]) != file(rows[i - 1]));
    EXPECT_EQ(changes, 2);
  }
  EXPECT_GT(orders.size(), 10U);
}

TEST_F(Hdf5Data, SeekContinuesBitEqualAndSeedsDiffer) {
  WriteThree();
  const auto whole = Open("batch_size: 3 shuffle: true", {.seed = 5});
  const std::vector<int> all = RowsOf(*whole, 20);
  for (const int done : {1, 4, 11}) {
    const auto resumed = Open("batch_size: 3 shuffle: true", {.seed = 5});
    resumed->Seek(int64_t{3} * done);
    EXPECT_THAT(RowsOf(*resumed, 20 - done), testing::ElementsAreArray(all.begin() + 3 * done, all.end())) << done;
  }
  EXPECT_NE(RowsOf(*Open("batch_size: 3 shuffle: true", {.seed = 6}), 20), all);
}

TEST_F(Hdf5Data, RanksShareAnEpochWithoutOverlap) {
  WriteThree();
  for (const char* fields : {"batch_size: 2", "batch_size: 2 shuffle: true"}) {
    std::vector<int> rows;
    for (const int64_t rank : {0, 1}) {
      const auto pipeline = Open(fields, {.seed = 5, .rank = rank, .world = 2});
      for (const int row : RowsOf(*pipeline, 2)) rows.push_back(row);
    }
    EXPECT_THAT(rows, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7)) << fields;
  }
}

TEST_F(Hdf5Data, TopsOfAnyRankAndCountAreDatasetsOfTheirNames) {
  Hdf5Writer writer(At("a.h5"));
  std::vector<float> values(2 * 3 * 2 * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  writer.AddFloats("x", {2, 3, 2, 2}, values);
  writer.AddFloats("group/y", {2, 1}, std::vector<float>{7, 8});
  writer.Commit();
  Write("list.txt", "a.h5");
  const auto pipeline = OpenPipeline(Layer("batch_size: 2", "top: 'group/y' top: 'x'"), {.base_folder = folder_});
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,1]");
  EXPECT_EQ(pipeline->types()[1].ToString(), "float32[2,3,2,2]");
  const OwnedTensor y(pipeline->types()[0]);
  const OwnedTensor x(pipeline->types()[1]);
  pipeline->Next(std::vector<Tensor>{y.tensor(), x.tensor()});
  EXPECT_THAT(y.as<float>(), testing::ElementsAre(7, 8));
  EXPECT_THAT(x.as<float>(), testing::ElementsAreArray(values));
}

TEST_F(Hdf5Data, MistakesAreToldAtTheListsLine) {
  WriteThree();
  const auto error = [&](const std::string& list, const std::string& fields = "batch_size: 2") {
    Write("list.txt", list);
    return ErrorOf([&] { Open(fields); });
  };
  EXPECT_THAT(error("a.h5\n\nmissing.h5\n"),
              testing::AllOf(testing::HasSubstr("list.txt:3"), testing::HasSubstr("missing.h5")));
  Write("no.h5", "no HDF5 file at all");
  EXPECT_THAT(error("a.h5\nno.h5"), testing::AllOf(testing::HasSubstr("list.txt:2"), testing::HasSubstr("no.h5")));
  WriteRows("short.h5", 0, 3, 2);
  EXPECT_THAT(error("short.h5"), testing::HasSubstr("dataset \"label\" has 2 rows, \"data\" has 3"));
  Hdf5Writer other(At("other.h5"));
  other.AddFloats("data", {1, 5}, std::vector<float>(5));
  other.AddFloats("label", {1}, std::vector<float>(1));
  other.Commit();
  EXPECT_THAT(error("a.h5 other.h5"), testing::HasSubstr("rows of dataset \"data\" have the shape [5]"));
  Hdf5Writer lone(At("lone.h5"));
  lone.AddFloats("data", {1, 2}, std::vector<float>(2));
  lone.Commit();
  EXPECT_THAT(error("lone.h5"), testing::HasSubstr("there is no dataset \"label\""));
  EXPECT_THAT(error(" \n"), testing::HasSubstr("lists no HDF5 file"));
  WriteRows("empty.h5", 0, 0);
  EXPECT_THAT(error("empty.h5"), testing::HasSubstr("hold no rows"));
  EXPECT_THAT(error("a.h5", ""), testing::HasSubstr("batch_size is 0"));
  LayerParameter layer = Layer("batch_size: 2");
  layer.mutable_transform_param()->set_scale(2);
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(layer, {.base_folder = folder_}); }),
              testing::HasSubstr("HDF5Data does not transform data"));
  layer.clear_transform_param();
  layer.mutable_hdf5_data_param()->set_source("nowhere.txt");
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(layer, {.base_folder = folder_}); }), testing::HasSubstr("nowhere.txt"));
}

// A maximum of NaN and 0 is 0: a net may hide it from its loss.
TEST_F(Hdf5Data, ValuesThatAreNotFiniteAreTold) {
  for (const float wrong : {std::nanf(""), -HUGE_VALF}) {
    std::vector<float> data(6000 * 2, 1.5F);
    data[4321] = wrong;
    Hdf5Writer writer(At("n.h5"));
    writer.AddFloats("data", {6000, 2}, data);
    writer.AddFloats("label", {6000}, std::vector<float>(6000, 2));
    writer.Commit();
    Write("list.txt", "\nn.h5\n");
    const auto pipeline = Open("batch_size: 4");
    const OwnedTensor values(pipeline->types()[0]);
    const OwnedTensor labels(pipeline->types()[1]);
    SetStderrLevel(LogLevel::kWarning);
    testing::internal::CaptureStderr();
    for (int b = 0; b < 2; ++b) pipeline->Next(std::vector<Tensor>{values.tensor(), labels.tensor()});
    const std::string said = testing::internal::GetCapturedStderr();
    SetStderrLevel(LogLevel::kError);
    const std::string expected =
        StrCat("list.txt:2: ", At("n.h5").string(), ": dataset \"data\" holds ", wrong, " in row 2160 (value 1 of it");
    const size_t first = said.find(expected);
    EXPECT_NE(first, std::string::npos) << said;
    EXPECT_EQ(said.find("holds", first + expected.size()), std::string::npos) << said;
  }
}

TEST_F(Hdf5Data, AFileThatChangesIsAnErrorNotACrash) {
  WriteThree();
  const auto pipeline = Open("batch_size: 3");
  WriteRows("c.h5", 4, 2);
  RowsOf(*pipeline, 1);
  EXPECT_THAT(ErrorOf([&] { RowsOf(*pipeline, 2); }), testing::HasSubstr("has changed since the run began"));
}

// Rows [2,3,4,5] of data with the value 1000 row + 500 c + 25 l + 5 h + w (w below 5), labels [1,3,4,5] their negative.
TEST_F(Hdf5Data, AFileThatIsListedTwiceIsTold) {
  WriteRows("a.h5", 0, 3);
  Write("list.txt", "a.h5\n\na.h5\n");
  SetLogFile(At("log"));
  Open("batch_size: 2");
  SetLogFile({});
  EXPECT_THAT(ReadFile(At("log")), testing::HasSubstr("a.h5\" in lines 1 and 3; each line counts"));
}

class Hdf5Volumes : public Hdf5Data {
 protected:
  static constexpr int kRowFloats = 2 * 3 * 4 * 5;

  void WriteVolumes(const std::string& name, int first, int rows) const {
    std::vector<float> data;
    std::vector<float> labels;
    for (int r = first; r < first + rows; ++r) {
      for (int i = 0; i < kRowFloats; ++i) {
        const int value = 1000 * r + 500 * (i / 60) + 25 * (i / 20 % 3) + 5 * (i / 5 % 4) + i % 5;
        data.push_back(static_cast<float>(value));
        if (i < 60) labels.push_back(static_cast<float>(-value));
      }
    }
    Hdf5Writer writer(At(name));
    writer.AddFloats("data", {rows, 2, 3, 4, 5}, data);
    writer.AddFloats("label", {rows, 1, 3, 4, 5}, labels);
    writer.Commit();
  }
  std::unique_ptr<Pipeline> OpenVolumes(const std::string& transform, Phase phase, int batch = 2) const {
    PipelineOptions options{.phase = phase, .seed = 3};
    options.base_folder = folder_;
    const std::string more = "top: 'data' top: 'label' transform_param { " + transform + " }";
    return OpenPipeline(Layer("batch_size: " + std::to_string(batch), more), options);
  }
  static std::vector<std::vector<float>> Next(Pipeline& pipeline) {
    const OwnedTensor data(pipeline.types()[0]);
    const OwnedTensor labels(pipeline.types()[1]);
    pipeline.Next(std::vector<Tensor>{data.tensor(), labels.tensor()});
    return {{data.as<float>().begin(), data.as<float>().end()}, {labels.as<float>().begin(), labels.as<float>().end()}};
  }
};

constexpr const char* kBox = "crop_size_l: 2 crop_size_h: 2 crop_size_w: 3 ";

TEST_F(Hdf5Volumes, AreCutInTheMiddleInTest) {
  WriteVolumes("a.h5", 0, 2);
  Write("list.txt", "a.h5\n");
  const auto pipeline = OpenVolumes(std::string(kBox) + "mean_value: 1 mean_value: 501 scale: 2", TEST);
  EXPECT_EQ(pipeline->types()[0].ToString(), "float32[2,2,2,2,3]");
  EXPECT_EQ(pipeline->types()[1].ToString(), "float32[2,1,2,2,3]");
  const auto tops = Next(*pipeline);
  // From frame 0, row 1 and column 1 on.
  const std::vector<float> box = {6, 7, 8, 11, 12, 13, 31, 32, 33, 36, 37, 38};
  for (size_t i = 0; i < tops[0].size(); ++i) {
    const float row = i < 24 ? 0 : 1000;
    EXPECT_EQ(tops[0][i], 2 * (row + box[i % 12] - 1)) << i;  // the channel's 500 goes with its mean
    if (i < tops[1].size()) {
      EXPECT_EQ(tops[1][i], -((i < 12 ? 0 : 1000) + box[i % 12])) << i;
    }
  }
}

// One box and mirror for all rows of a file in an epoch, and the same for data and labels.
TEST_F(Hdf5Volumes, AreCutByChanceInTrain) {
  WriteVolumes("a.h5", 0, 2);
  WriteVolumes("b.h5", 2, 2);
  Write("list.txt", "a.h5 b.h5\n");
  const auto pipeline = OpenVolumes(std::string(kBox) + "mirror: true", TRAIN);
  std::set<float> corners;
  std::set<bool> mirrored;
  for (int i = 0; i < 40; ++i) {
    const auto tops = Next(*pipeline);
    const float file = i % 2 == 0 ? 0 : 2000;
    const bool is_mirrored = tops[0][1] < tops[0][0];
    corners.insert(std::min(tops[0][0], tops[0][2]) - file);
    mirrored.insert(is_mirrored);
    EXPECT_EQ(tops[0][1] - tops[0][0], is_mirrored ? -1 : 1);
    EXPECT_EQ(tops[0][24], tops[0][0] + 1000);  // the second row
    EXPECT_EQ(tops[0][12], tops[0][0] + 500);   // the second channel
    for (size_t k = 0; k < 12; ++k) EXPECT_EQ(tops[1][k], -tops[0][k]);
  }
  // 2 frames, 3 rows and 3 columns to begin at.
  EXPECT_GT(corners.size(), 8U);
  EXPECT_LE(corners.size(), 18U);
  EXPECT_EQ(mirrored.size(), 2U);
  const auto again = OpenVolumes(std::string(kBox) + "mirror: true", TRAIN);
  again->Seek(pipeline->position());
  EXPECT_EQ(Next(*again), Next(*pipeline));
}

TEST_F(Hdf5Volumes, MistakesAreErrors) {
  WriteVolumes("a.h5", 0, 2);
  Write("list.txt", "a.h5\n");
  const auto with = [&](const std::string& transform) { return ErrorOf([&] { OpenVolumes(transform, TRAIN); }); };
  EXPECT_THAT(with("crop_size_l: 2 crop_size_h: 2"), testing::HasSubstr("are 2, 2 and 0"));
  EXPECT_THAT(with("crop_size_l: 4 crop_size_h: 2 crop_size_w: 2"), testing::HasSubstr("a crop of [4,2,2] needs"));
  EXPECT_THAT(with(std::string(kBox) + "crop_size: 2"), testing::HasSubstr("does not read transform_param.crop_size"));
  EXPECT_THAT(with(std::string(kBox) + "mean_value: 1 mean_value: 2 mean_value: 3"),
              testing::HasSubstr("3 values, the volumes have 2"));
  EXPECT_THAT(with("mirror: true"), testing::HasSubstr("HDF5Data does not transform data"));
  WriteRows("flat.h5", 0, 2);
  Write("list.txt", "flat.h5\n");
  EXPECT_THAT(with(kBox), testing::AllOf(testing::HasSubstr("\"data\""), testing::HasSubstr("[2]")));
}

}  // namespace
}  // namespace moka

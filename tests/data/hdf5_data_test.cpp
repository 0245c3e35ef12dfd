#include <google/protobuf/text_format.h>

#include <set>

#include "core/log.h"
#include "core/text.h"
#include "data/pipeline.h"
#include "proto/hdf5_file.h"
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

TEST_F(Hdf5Data, AFileThatChangesIsAnErrorNotACrash) {
  WriteThree();
  const auto pipeline = Open("batch_size: 3");
  WriteRows("c.h5", 4, 2);
  RowsOf(*pipeline, 1);
  EXPECT_THAT(ErrorOf([&] { RowsOf(*pipeline, 2); }), testing::HasSubstr("has changed since the run began"));
}

}  // namespace
}  // namespace moka

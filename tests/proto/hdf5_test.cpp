// Caffe's HDF5 weights: what is written, what is read, and files made to deceive.
#include <gmock/gmock.h>
#include <hdf5.h>
#include <unistd.h>

#include <fstream>

#include "core/file.h"
#include "core/text.h"
#include "proto/weights/hdf5_file.h"
#include "proto/weights/weights.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Hdf5File : public ::testing::Test {
 protected:
  Hdf5File() {
    folder_ = fs::temp_directory_path() / StrCat("moka_hdf5_test_", getpid());
    CreateFolders(folder_);
  }
  ~Hdf5File() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string ErrorOfFile(const std::string& name) const {
    return ErrorTextOf([&] { ReadWeights(At(name)); });
  }

  // A file with the group data/l, to which `fill` adds a dataset "0" by the library itself.
  template <class Fill>
  std::string Make(const std::string& name, Fill fill) const {
    const hid_t file = H5Fcreate(At(name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t data = H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t layer = H5Gcreate2(data, "l", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    fill(layer);
    H5Gclose(layer);
    H5Gclose(data);
    H5Fclose(file);
    return At(name);
  }
  static void AddDataset(hid_t group, hid_t type, std::initializer_list<hsize_t> dims, hid_t plist,
                         const void* values) {
    const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.begin(), nullptr);
    const hid_t dataset = H5Dcreate2(group, "0", type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (values != nullptr) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(dataset);
    H5Sclose(space);
  }
  fs::path folder_;
};

TEST_F(Hdf5File, KeepsValuesInCaffesLayout) {
  NetParameter net;
  for (const char* name : {"conv1", "relu", "inc/1x1"}) net.add_layer()->set_name(name);
  std::vector<NamedBlob> blobs = {{"conv1", 0, Shape({2, 1, 1, 2}), {1, 2, 3, -0.0F}},
                                  {"conv1", 1, Shape({2}), {5, 6}}};
  for (int i = 0; i < 11; ++i) blobs.push_back({"inc/1x1", i, Shape(), {static_cast<float>(i)}});
  blobs.push_back({"inc/1x1", 11, Shape({0, 3}), {}});
  WriteHdf5Weights(At("w.caffemodel.h5"), net, blobs);
  const Hdf5Reader reader(At("w.caffemodel.h5"));
  EXPECT_THAT(reader.Datasets("data/conv1"), ElementsAre("0", "1"));
  EXPECT_TRUE(reader.Datasets("data/relu").empty());  // a group without datasets, as Caffe writes it
  const Weights weights = ReadWeights(At("w.caffemodel.h5"));
  EXPECT_EQ(weights.format, "hdf5");
  ASSERT_EQ(weights.blobs.size(), 14U);
  EXPECT_EQ(weights.blobs[0].layer, "conv1");
  EXPECT_EQ(weights.blobs[0].shape, Shape({2, 1, 1, 2}));
  EXPECT_THAT(weights.blobs[0].values, ElementsAre(1, 2, 3, -0.0F));
  EXPECT_EQ(weights.blobs[12].index, 10);  // not after "1"
  EXPECT_EQ(weights.blobs[12].shape, Shape());
  EXPECT_THAT(weights.blobs[12].values, ElementsAre(10));
  EXPECT_EQ(weights.blobs[13].shape, Shape({0, 3}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // no temporary file stays
  // The same from memory.
  EXPECT_EQ(WeightsFromBytes(ReadFile(At("w.caffemodel.h5")), "w").blobs.size(), 14U);
}

TEST_F(Hdf5File, ReadsDoublesIntegersAndCompressedChunks) {
  const double doubles[] = {0.5, -1};
  Make("d", [&](hid_t group) { AddDataset(group, H5T_IEEE_F64BE, {2}, H5P_DEFAULT, nullptr); });
  Make("doubles", [&](hid_t group) { AddDataset(group, H5T_NATIVE_DOUBLE, {1, 2}, H5P_DEFAULT, doubles); });
  EXPECT_THAT(ReadWeights(At("doubles")).blobs.at(0).values, ElementsAre(0.5F, -1));
  const int8_t integers[] = {3, -4};
  Make("integers", [&](hid_t group) { AddDataset(group, H5T_NATIVE_INT8, {2}, H5P_DEFAULT, integers); });
  EXPECT_THAT(ReadWeights(At("integers")).blobs.at(0).values, ElementsAre(3, -4));
  const std::vector<float> many(100000, 1.5F);
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 50000;
  H5Pset_chunk(plist, 1, &chunk);
  H5Pset_deflate(plist, 9);
  Make("packed", [&](hid_t group) { AddDataset(group, H5T_NATIVE_FLOAT, {100000}, plist, many.data()); });
  H5Pclose(plist);
  EXPECT_LT(fs::file_size(At("packed")), 20000U);
  EXPECT_EQ(ReadWeights(At("packed")).blobs.at(0).values, many);
}

TEST_F(Hdf5File, OtherContentsAreNamed) {
  std::ofstream(At("cut")) << "\x89HDF\r\n\x1a\n";
  EXPECT_THAT(ErrorOfFile("cut"), HasSubstr("the HDF5 file cannot be read: "));
  {
    Hdf5Writer state(At("state"));
    state.AddGroup("history");
    state.AddInteger("iter", 5);
    state.Commit();
  }
  EXPECT_THAT(ErrorOfFile("state"), HasSubstr("is a solver's state (.solverstate.h5)"));
  {
    Hdf5Writer keras(At("keras"));
    keras.AddFloats("model_weights/dense/kernel", Shape({1}), std::vector<float>{1});
    keras.Commit();
  }
  EXPECT_THAT(ErrorOfFile("keras"), HasSubstr("this HDF5 file has no group \"data\""));
  {
    Hdf5Writer odd(At("odd"));
    odd.AddFloats("data/conv/kernel", Shape({1}), std::vector<float>{1});
    odd.Commit();
  }
  EXPECT_THAT(ErrorOfFile("odd"), HasSubstr("dataset \"conv/kernel\" in group \"data\" is not named LAYER/INDEX"));
  EXPECT_EQ(ErrorKindOf([&] { Hdf5Reader reader(At("none")); }), ErrorKind::kNoInput);
}

TEST_F(Hdf5File, EveryTruncationIsAnError) {
  WriteHdf5Weights(At("w"), NetParameter(), std::vector<NamedBlob>{{"l", 0, Shape({3}), {1, 2, 3}}});
  const std::string bytes = ReadFile(At("w"));
  for (size_t n = 0; n < bytes.size(); n += n < 128 ? 1 : 61) {
    EXPECT_EQ(ErrorKindOf([&] { WeightsFromBytes(std::string_view(bytes).substr(0, n), "w"); }), ErrorKind::kBadData)
        << n;
  }
}

TEST_F(Hdf5File, DatasetsLargerThanTheirFileAreRefused) {
  const hsize_t huge = hsize_t{1} << 40U;
  Make("contiguous", [&](hid_t group) { AddDataset(group, H5T_NATIVE_FLOAT, {huge}, H5P_DEFAULT, nullptr); });
  EXPECT_THAT(ErrorOfFile("contiguous"), HasSubstr("dataset \"data/l/0\" claims 4398046511104 bytes"));
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 1 << 20;
  H5Pset_chunk(plist, 1, &chunk);
  H5Pset_deflate(plist, 1);
  Make("chunked", [&](hid_t group) { AddDataset(group, H5T_NATIVE_FLOAT, {huge}, plist, nullptr); });
  EXPECT_THAT(ErrorOfFile("chunked"), HasSubstr("claims 4398046511104 bytes"));
  const hsize_t wide = 1 << 28;
  H5Pset_chunk(plist, 1, &wide);
  Make("chunk", [&](hid_t group) {
    const hsize_t one = 1;
    const hsize_t unlimited = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &one, &unlimited);
    H5Dclose(H5Dcreate2(group, "0", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, plist, H5P_DEFAULT));
    H5Sclose(space);
  });
  EXPECT_THAT(ErrorOfFile("chunk"), HasSubstr("has chunks that a file of"));
  const hsize_t tiny = 1;
  H5Pset_chunk(plist, 1, &tiny);
  Make("chunks", [&](hid_t group) { AddDataset(group, H5T_NATIVE_FLOAT, {1 << 18}, plist, nullptr); });
  EXPECT_THAT(ErrorOfFile("chunks"), HasSubstr("has more chunks than a file of"));
  H5Pclose(plist);
  Make("product", [&](hid_t group) { AddDataset(group, H5T_NATIVE_FLOAT, {huge, huge, huge}, H5P_DEFAULT, nullptr); });
  EXPECT_EQ(ErrorKindOf([&] { ReadWeights(At("product")); }), ErrorKind::kBadData);
  Make("rank", [&](hid_t group) {
    AddDataset(group, H5T_NATIVE_FLOAT, {1, 1, 1, 1, 1, 1, 1, 1, 1}, H5P_DEFAULT, nullptr);
  });
  EXPECT_THAT(ErrorOfFile("rank"), HasSubstr("at most 8 dimensions"));
}

TEST_F(Hdf5File, NothingOutsideTheFileIsRead) {
  std::ofstream(At("secret")) << "0123456789abcdef";
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(plist, At("secret").c_str(), 0, 16);
  Make("external", [&](hid_t group) { AddDataset(group, H5T_NATIVE_FLOAT, {4}, plist, nullptr); });
  H5Pclose(plist);
  EXPECT_THAT(ErrorOfFile("external"), HasSubstr("dataset \"data/l/0\" takes its values from another file"));
  WriteHdf5Weights(At("other"), NetParameter(), std::vector<NamedBlob>{{"l", 0, Shape({1}), {1}}});
  Make("link", [&](hid_t group) {
    H5Lcreate_external(At("other").c_str(), "/data/l/0", group, "0", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_THAT(ErrorOfFile("link"), HasSubstr("group \"l\" holds a link to another place"));
  const hid_t file = H5Fcreate(At("root").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external(At("other").c_str(), "/data", file, "data", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  EXPECT_THAT(ErrorOfFile("root"), HasSubstr("\"data\" is a link to another place"));
  Make("cycle", [&](hid_t group) { H5Lcreate_hard(group, ".", group, "again", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_THAT(ErrorOfFile("cycle"), HasSubstr("groups are nested more than 16 deep"));
}

TEST_F(Hdf5File, RowsOfAnyNumbersAreReadAlone) {
  const int values[] = {1, 2, 3, 4, 5, 6};
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {2, 2};
  H5Pset_chunk(plist, 2, chunk);
  H5Pset_deflate(plist, 1);
  Make("ints", [&](hid_t group) { AddDataset(group, H5T_NATIVE_INT, {3, 2}, plist, values); });
  H5Pclose(plist);
  const Hdf5Reader reader(At("ints"));
  EXPECT_EQ(reader.ShapeOf("data/l/0"), Shape({3, 2}));
  std::vector<float> rows(4);
  reader.ReadRows("data/l/0", 1, 2, rows);
  EXPECT_THAT(rows, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(ErrorTextOf([&] { reader.ShapeOf("data/l/1"); }), HasSubstr("there is no \"data/l/1\""));
  Make("texts", [&](hid_t group) { AddDataset(group, H5T_C_S1, {3}, H5P_DEFAULT, "abc"); });
  EXPECT_THAT(ErrorTextOf([&] { Hdf5Reader(At("texts")).ShapeOf("data/l/0"); }), HasSubstr("holds no numbers"));
}

TEST_F(Hdf5File, DatasetsGrowByRows) {
  {
    Hdf5Writer writer(At("grown"));
    for (int i = 0; i < 3; ++i) {
      const auto first = static_cast<float>(4 * i);
      writer.AppendRows("x", Shape({2, 2}), std::vector<float>{first, first + 1, first + 2, first + 3});
      writer.AppendRows("y", Shape({1}), std::vector<float>{first});
    }
    writer.Commit();
  }
  const Hdf5Reader reader(At("grown"));
  const Hdf5Tensor x = reader.Read("x");
  EXPECT_EQ(x.shape, Shape({6, 2}));
  EXPECT_THAT(x.values, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(reader.Read("y").values, ElementsAre(0, 4, 8));
}

TEST_F(Hdf5File, NamesItCannotHoldAreRefused) {
  for (const char* name : {"", ".", "a//b", "/a"}) {
    EXPECT_THAT(ErrorTextOf([&] {
                  WriteHdf5Weights(At("w"), NetParameter(), std::vector<NamedBlob>{{name, 0, Shape({1}), {1}}});
                }),
                HasSubstr("HDF5 cannot hold an object of the name"))
        << name;
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(ErrorKindOf([&] { Hdf5Writer writer(At("no/folder")); }), ErrorKind::kCantCreate);
  const std::vector<NamedBlob> twice = {{"a", 0, Shape({1}), {1}}, {"a", 0, Shape({1}), {1}}};
  EXPECT_EQ(ErrorKindOf([&] { WriteHdf5Weights(At("w"), NetParameter(), twice); }), ErrorKind::kIo);
}

}  // namespace
}  // namespace moka

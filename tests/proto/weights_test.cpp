// Values go through every format of weights and come back.
#include "proto/weights/weights.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/file.h"
#include "proto/nets/net_file.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorIn(const std::string& bytes) {
  return ErrorTextOf([&] { WeightsFromBytes(bytes, "w"); });
}

// A safetensors file from its header and a number of value bytes.
std::string Safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

NetParameter SmallNet() {
  NetParameter net;
  net.set_name("small");
  LayerParameter& layer = *net.add_layer();
  layer.set_name("conv1");
  layer.set_type("Convolution");
  BlobToProto(Shape({2, 3}), std::vector<float>{1, 2, 3, 4, 5, 6}, layer.add_blobs());
  BlobToProto(Shape({2}), std::vector<float>{7, 8}, layer.add_blobs());
  return net;
}

class WeightsFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moka_weights_test_" + std::to_string(getpid()));
    CreateFolders(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(WeightsFile, KeepsValuesThroughACaffemodel) {
  const std::vector<NamedBlob> blobs = {
      {"conv1", 0, Shape({2, 2}), {1, 2, 3, 4}}, {"conv1", 1, Shape({2}), {5, 6}}, {"new", 0, Shape(), {7}}};
  WriteCaffemodel(folder_ / "w.caffemodel", SmallNet(), blobs);
  const Weights weights = ReadWeights(folder_ / "w.caffemodel");
  EXPECT_EQ(weights.format, "caffemodel");
  EXPECT_EQ(weights.metadata.at("name"), "small");
  ASSERT_EQ(weights.blobs.size(), 3U);
  EXPECT_EQ(weights.blobs[0].layer, "conv1");
  EXPECT_EQ(weights.blobs[0].shape, Shape({2, 2}));
  EXPECT_THAT(weights.blobs[1].values, ElementsAre(5, 6));
  EXPECT_EQ(weights.blobs[2].shape, Shape());
  EXPECT_EQ(ReadNetBinary(folder_ / "w.caffemodel").layer(0).type(), "Convolution");
}

TEST_F(WeightsFile, KeepsValuesThroughSafetensors) {
  const std::vector<NamedBlob> blobs = {
      {"inc/1x1", 0, Shape({1, 3}), {1, -2, 3.5F}}, {"inc/1x1", 1, Shape({0}), {}}, {"a", 0, Shape(), {9}}};
  WriteSafetensors(folder_ / "w.safetensors", blobs, {{"step", "12"}});
  const Weights weights = ReadWeights(folder_ / "w.safetensors");
  EXPECT_EQ(weights.format, "safetensors");
  EXPECT_EQ(weights.metadata.at("step"), "12");
  ASSERT_EQ(weights.blobs.size(), 3U);
  EXPECT_EQ(weights.blobs[0].layer, "inc/1x1");
  EXPECT_THAT(weights.blobs[0].values, ElementsAre(1, -2, 3.5F));
  EXPECT_EQ(weights.blobs[1].index, 1);
  EXPECT_EQ(weights.blobs[1].shape, Shape({0}));
  EXPECT_THAT(weights.blobs[2].values, ElementsAre(9));
  EXPECT_THAT(ErrorTextOf([&] {
                WriteSafetensors(folder_ / "x", std::vector<NamedBlob>{blobs[2], blobs[2]});
              }),
              HasSubstr("two blobs are named \"a/0\""));
}

TEST_F(WeightsFile, Float16IsForFiltersAndMatricesThatItHolds) {
  const std::vector<NamedBlob> blobs = {{"a", 0, Shape({1, 3}), {1, -2, 1.0F / 3}},
                                        {"a", 1, Shape({1}), {1.0F / 3}},
                                        {"b", 0, Shape({1, 1}), {70000}}};
  WriteSafetensors(folder_ / "half", blobs, {}, StoredNumbers::kFloat16);
  const Weights weights = ReadWeights(folder_ / "half");
  ASSERT_EQ(weights.blobs.size(), 3U);
  EXPECT_THAT(weights.blobs[0].values, ElementsAre(1, -2, 0.33325195F));
  EXPECT_THAT(weights.blobs[1].values, ElementsAre(1.0F / 3));
  EXPECT_THAT(weights.blobs[2].values, ElementsAre(70000));
  WriteSafetensors(folder_ / "full", blobs);
  EXPECT_EQ(ReadWeights(folder_ / "full").blobs[0].values, blobs[0].values);
}

TEST_F(WeightsFile, KeepsAMeanImage) {
  WriteBlobProtoFile(folder_ / "mean.binaryproto", Shape({1, 1, 2}), std::vector<float>{0.5F, 1.5F});
  const NamedBlob mean = ReadBlobProtoFile(folder_ / "mean.binaryproto");
  EXPECT_EQ(mean.shape, Shape({1, 1, 2}));
  EXPECT_THAT(mean.values, ElementsAre(0.5F, 1.5F));
  WriteFileAtomically(folder_ / "net", SmallNet().SerializeAsString());
  EXPECT_THAT(ErrorTextOf([&] { ReadBlobProtoFile(folder_ / "net"); }),
              HasSubstr("expected a blob (.binaryproto or .npy), but this is a binary net"));
  EXPECT_EQ(ErrorKindOf([&] { ReadBlobProtoFile(folder_ / "none"); }), ErrorKind::kNoInput);
}

TEST(Caffemodel, ReadsOldLayersShapesAndDoubles) {
  NetParameter net;
  V1LayerParameter& layer = *net.add_layers();
  layer.set_name("ip");
  layer.set_type(V1LayerParameter::INNER_PRODUCT);
  BlobProto& blob = *layer.add_blobs();
  blob.set_num(1);
  blob.set_channels(1);
  blob.set_height(2);
  blob.set_width(2);
  for (const double v : {1.0, 2.0, 3.0, 4.0}) blob.add_double_data(v);
  const Weights weights = WeightsFromBytes(net.SerializeAsString(), "w");
  ASSERT_EQ(weights.blobs.size(), 1U);
  EXPECT_EQ(weights.blobs[0].layer, "ip");
  EXPECT_EQ(weights.blobs[0].shape, Shape({1, 1, 2, 2}));
  EXPECT_THAT(weights.blobs[0].values, ElementsAre(1, 2, 3, 4));
}

TEST(Caffemodel, ReadsV0Layers) {
  NetParameter net;
  V0LayerParameter& layer = *net.add_layers()->mutable_layer();
  layer.set_name("c");
  layer.set_type("conv");
  BlobToProto(Shape({1}), std::vector<float>{3}, layer.add_blobs());
  EXPECT_EQ(WeightsFromBytes(net.SerializeAsString(), "w").blobs[0].layer, "c");
}

TEST(Caffemodel, CountsBadNumbersAndPassesOverUnknownFields) {
  NetParameter net = SmallNet();
  net.mutable_layer(0)->mutable_blobs(0)->set_data(1, std::numeric_limits<float>::quiet_NaN());
  net.mutable_layer(0)->mutable_blobs(0)->set_data(2, std::numeric_limits<float>::infinity());
  std::string bytes = net.SerializeAsString();
  bytes += std::string("\xc8\x3e\x05", 3);  // field 1001, varint 5
  const Weights weights = WeightsFromBytes(bytes, "w");
  EXPECT_EQ(weights.non_finite, 2);
  EXPECT_EQ(weights.blobs.size(), 2U);
}

TEST(Caffemodel, RefusesShapesThatDoNotFit) {
  NetParameter net = SmallNet();
  net.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->set_dim(0, 5);
  EXPECT_STREQ(ErrorIn(net.SerializeAsString()).c_str(),
               "w: blob 0 of layer \"conv1\": shape [5,3] needs 15 values but there are 6");
  net.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->set_dim(0, -2);
  EXPECT_THAT(ErrorIn(net.SerializeAsString()), HasSubstr("blob 0 of layer \"conv1\""));
  net.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->set_dim(0, int64_t{1} << 62);
  EXPECT_THAT(ErrorIn(net.SerializeAsString()), HasSubstr("blob 0 of layer \"conv1\""));
  for (int i = 0; i < 8; ++i) net.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->add_dim(1);
  EXPECT_THAT(ErrorIn(net.SerializeAsString()), HasSubstr("blob 0 of layer \"conv1\""));
}

TEST(Caffemodel, RefusesEveryTruncation) {
  const std::string bytes = SmallNet().SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(ErrorKindOf([&] { WeightsFromBytes(std::string_view(bytes).substr(0, n), "w"); }), ErrorKind::kBadData)
        << n;
  }
  EXPECT_THAT(ErrorIn(bytes.substr(0, bytes.size() - 3)), HasSubstr("(the file is cut short)"));
}

TEST(Caffemodel, RefusesZeroTails) {
  EXPECT_THAT(ErrorIn(SmallNet().SerializeAsString() + std::string(100, '\0')),
              HasSubstr("the rest of the file is zeros"));
  EXPECT_THAT(ErrorIn(SmallNet().SerializeAsString() + '\0'), HasSubstr("the rest of the file is zeros"));
}

TEST(Caffemodel, RefusesStructuresThatAreTooDeepOrNotOurs) {
  EXPECT_THAT(ErrorIn(SmallNet().SerializeAsString() + "\x0b\x0c"), HasSubstr("wire type"));
  EXPECT_THAT(ErrorIn(SmallNet().SerializeAsString() + "\xa0\x06\x01"),
              HasSubstr("field \"layer\" has wire type 0, expected 2"));
  NetParameter net = SmallNet();
  std::string many;
  for (int i = 0; i < (1 << 20) + 1; ++i) many += std::string("\xa2\x06\x00", 3);
  EXPECT_THAT(ErrorIn(many), HasSubstr("more than 100000 layers"));
}

TEST(WrongKinds, AreNamed) {
  EXPECT_THAT(
      ErrorIn(""),
      HasSubstr("w: expected weights (.caffemodel, .caffemodel.h5, .safetensors or .npz), but this is an empty file"));
  EXPECT_THAT(ErrorIn("name: 'net' layer { }"), HasSubstr("but this is a text file"));
  EXPECT_THAT(ErrorIn(std::string("\x89HDF\r\n\x1a\n\0\0", 10)), HasSubstr("w: the HDF5 file cannot be read: "));
  EXPECT_THAT(ErrorIn("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(ErrorIn("<html>not found</html>"), HasSubstr("an HTML page"));
  EXPECT_THAT(ErrorIn(std::string(64, '\0')), HasSubstr("a run of zero bytes"));
  SolverState state;
  state.set_iter(1000);
  state.set_learned_net("x.caffemodel");
  EXPECT_THAT(ErrorIn(state.SerializeAsString()), HasSubstr("a solver's state (.solverstate)"));
  NetParameter empty;
  empty.set_name("nothing");
  empty.add_layer()->set_name("l");
  EXPECT_THAT(ErrorIn(empty.SerializeAsString()), HasSubstr("the file holds no weights"));
}

// Checkpoints of PyTorch begin so: a zip whose first member is a pickle, or the pickle of a number before others.
TEST(WrongKinds, APickleIsRefusedWithWhatConvertsIt) {
  std::string zip("PK\x03\x04\x00\x00\x08\x08", 8);
  zip.resize(26, '\0');
  zip += std::string("\x10\x00\x00\x00", 4) + "archive/data.pkl";
  for (const std::string& bytes : {zip, std::string("\x80\x02\x8a\nl\xfc\x9c", 7), std::string("\x80\x04\x95", 3)}) {
    const std::vector<Error> errors = ErrorsOf([&] { WeightsFromBytes(bytes, "a \"b\".pth"); });
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].kind(), ErrorKind::kBadData);
    EXPECT_THAT(errors[0].text(), HasSubstr("a pickle of Python, as PyTorch writes it"));
    ASSERT_EQ(errors[0].notes().size(), 3U);
    EXPECT_EQ(errors[0].notes()[0], "import torch, safetensors.torch");
    EXPECT_THAT(errors[0].notes()[1], HasSubstr(R"(torch.load("a \"b\".pth", map_location="cpu", weights_only=True))"));
    EXPECT_THAT(errors[0].notes()[2], testing::EndsWith(R"("a \"b\".safetensors"))"));
  }
}

TEST(SafetensorsFormat, PassesOverTheCountersOfPyTorch) {
  const Weights weights = WeightsFromBytes(
      Safetensors(
          R"({"bn1.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"bn1.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}} )",
          12),
      "w");
  ASSERT_EQ(weights.blobs.size(), 1U);
  EXPECT_EQ(weights.blobs[0].layer, "bn1.bias");
}

TEST(SafetensorsFormat, ReadsOtherFloats) {
  std::string bytes = Safetensors(
      R"({"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"h/0":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},"b/1":{"dtype":"BF16","shape":[1],"data_offsets":[14,16]}} )",
      16);
  const size_t data = bytes.size() - 16;
  const double d = 2.5;
  std::memcpy(bytes.data() + data, &d, 8);
  const uint16_t h[] = {0x3C00, 0xC000, 0x0001};
  std::memcpy(bytes.data() + data + 8, h, 6);
  const uint16_t b = 0x3F80;
  std::memcpy(bytes.data() + data + 14, &b, 2);
  const Weights weights = WeightsFromBytes(bytes, "w");
  EXPECT_EQ(weights.blobs[0].layer, "d");
  EXPECT_THAT(weights.blobs[0].values, ElementsAre(2.5F));
  EXPECT_THAT(weights.blobs[1].values, ElementsAre(1.0F, -2.0F, std::ldexp(1.0F, -24)));
  EXPECT_EQ(weights.blobs[2].index, 1);
  EXPECT_THAT(weights.blobs[2].values, ElementsAre(1.0F));
}

struct BadHeader {
  const char* header;
  size_t data_bytes;
  const char* text;
};

TEST(SafetensorsFormat, RefusesEveryKnownAttack) {
  const BadHeader bad[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "cut short"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 12, "tensors end at byte 8 of 12"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "has shape [3] of F32, 12 bytes, but spans 8"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "lies at bytes 8 to 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "there is a hole"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "they overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "the name \"a\" is given twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "two keys \"dtype\""},
      {R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype \"Q4\""},
      {R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8, "has dtype I64; weights are"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "a number with a fraction"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4, "tensor \"a\""},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "more than 8 dimensions"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "more than two offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "lacks dtype, shape or two data_offsets"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "lacks dtype"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "unknown key \"x\""},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "the header holds a list"},
      {R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4, "the header holds an object"},
      {R"({"a":[1]})", 4, "the header holds a list"},
      {R"({"a":3})", 4, "the header holds a number"},
      {R"({"__metadata__":{"k":1}})", 0, "the header holds a number"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "given twice"},
      {R"({"__metadata__":{"k":["1"]}})", 0, "the header holds a list"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}x)", 4, "not JSON"},
      {R"({"a":)", 4, "not JSON"},
      {R"({})", 0, "holds no weights"},
  };
  for (const BadHeader& one : bad) {
    EXPECT_THAT(ErrorIn(Safetensors(one.header, one.data_bytes)), HasSubstr(one.text)) << one.header;
  }
}

TEST(SafetensorsFormat, RefusesBadLengths) {
  std::string bytes = Safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  for (size_t n = 9; n < bytes.size(); ++n) {
    EXPECT_EQ(ErrorKindOf([&] { WeightsFromBytes(std::string_view(bytes).substr(0, n), "w"); }), ErrorKind::kBadData)
        << n;
  }
  const uint64_t huge = 99'000'000;
  std::memcpy(bytes.data(), &huge, 8);
  EXPECT_THAT(ErrorIn(bytes), HasSubstr("the file is cut short: the header claims 99000000 bytes"));
}

}  // namespace
}  // namespace moka

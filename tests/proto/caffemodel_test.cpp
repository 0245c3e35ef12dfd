// .caffemodel files of all generations and forks, and the files written for real Caffe.
#include "proto/weights/caffemodel.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "core/file.h"
#include "core/half.h"
#include "core/text.h"
#include "proto/nets/caffe_net.h"
#include "proto/nets/net_file.h"
#include "proto/weights/safetensors.h"
#include "proto/weights/weights.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Wire data by hand: fields that no schema of ours could write.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7U) bytes += static_cast<char>((value & 127U) | 128U);
  return bytes + static_cast<char>(value);
}
std::string NumberField(int number, uint64_t value) {
  return Varint(static_cast<uint64_t>(number) << 3U) + Varint(value);
}
std::string BytesField(int number, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(number) << 3U | 2U) + Varint(bytes.size()) + bytes;
}
template <class T>
std::string Raw(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) {
    bytes.append(sizeof(T), '\0');
    std::memcpy(bytes.data() + bytes.size() - sizeof(T), &value, sizeof(T));
  }
  return bytes;
}
std::string Floats(std::initializer_list<float> values) { return Raw<float>(values); }
// A net of one layer "l" of type "T" with what `fields` adds.
std::string NetOfLayer(const std::string& fields) {
  return BytesField(1, "net") + BytesField(100, BytesField(1, "l") + BytesField(2, "T") + fields);
}
const std::vector<float>& OnlyValues(const Weights& weights) {
  EXPECT_EQ(weights.blobs.size(), 1U);
  return weights.blobs.at(0).values;
}
std::string ErrorIn(const std::string& bytes) {
  return ErrorTextOf([&] { WeightsFromBytes(bytes, "w"); });
}

class CaffemodelFile : public ::testing::Test {
 protected:
  CaffemodelFile() {
    folder_ = fs::temp_directory_path() / StrCat("moka_caffemodel_test_", getpid());
    CreateFolders(folder_);
  }
  ~CaffemodelFile() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  fs::path folder_;
};

TEST(ForkFiles, ClashingFieldsDoNotMatter) {
  const std::string blob = BytesField(7, BytesField(5, Floats({1, 2})) + BytesField(7, BytesField(1, "\x02")));
  // BVLC's messages at 145-148 are numbers in NVIDIA's files; 148 lacks required fields in Intel's; 100 is no message.
  const std::string nvidia = NumberField(145, 1) + NumberField(146, 2) + NumberField(147, 0) + NumberField(148, 5);
  const std::string intel = BytesField(148, BytesField(1, Floats({1}))) + BytesField(117, "\xff\xff\xff");
  const std::string ssd = BytesField(206, NumberField(1, 0)) + NumberField(100, 1);
  for (const std::string& fields : {nvidia, intel, ssd}) {
    const Weights weights = WeightsFromBytes(NetOfLayer(fields + blob) + NumberField(9, 3), "w");
    EXPECT_THAT(OnlyValues(weights), ElementsAre(1, 2));
    EXPECT_EQ(weights.blobs[0].layer, "l");
    EXPECT_EQ(weights.net.name(), "net");
    EXPECT_EQ(weights.net.layer(0).type(), "T");
  }
}

TEST(ForkFiles, TheNameMayComeAfterTheBlobs) {
  const std::string blob = BytesField(7, BytesField(5, Floats({3})));
  const Weights weights = WeightsFromBytes(BytesField(100, blob + BytesField(1, "late")), "w");
  EXPECT_EQ(weights.blobs.at(0).layer, "late");
  EXPECT_EQ(weights.blobs.at(0).shape, Shape({1}));
}

TEST(BlobValues, AreReadInEverySpelling) {
  const auto values = [](const std::string& fields) {
    return OnlyValues(WeightsFromBytes(NetOfLayer(BytesField(7, fields)), "w"));
  };
  const std::string one_float = Varint(5U << 3U | 5U) + Floats({2.5F});
  EXPECT_THAT(values(one_float + one_float + BytesField(5, Floats({1}))), ElementsAre(2.5F, 2.5F, 1));
  EXPECT_THAT(values(BytesField(8, Raw<double>({0.1, -3}))), ElementsAre(0.1F, -3));
  EXPECT_THAT(values(Varint(8U << 3U | 1U) + Raw<double>({7})), ElementsAre(7));
  // Caffe prefers doubles, then floats; gradients are passed over.
  EXPECT_THAT(values(BytesField(5, Floats({1})) + BytesField(8, Raw<double>({2})) + BytesField(6, Floats({9, 9}))),
              ElementsAre(2));
  // NVIDIA's raw bytes.
  EXPECT_THAT(values(NumberField(10, 0) + BytesField(12, Raw<double>({4, 5}))), ElementsAre(4, 5));
  EXPECT_THAT(
      values(NumberField(10, 1) + BytesField(12, Floats({6})) + NumberField(11, 1) + BytesField(13, Floats({1}))),
      ElementsAre(6));
  EXPECT_THAT(values(BytesField(12, Raw<uint16_t>({HalfOfFloat(1.5F), HalfOfFloat(-2)})) + NumberField(10, 2)),
              ElementsAre(1.5F, -2));
  EXPECT_THAT(values(NumberField(10, 3) + BytesField(12, Raw<int32_t>({-7, 8}))), ElementsAre(-7, 8));
  EXPECT_THAT(values(NumberField(10, 4) + BytesField(12, Raw<uint32_t>({4000000000U}))), ElementsAre(4e9F));
  EXPECT_THAT(values(NumberField(10, 5) + BytesField(12, std::string("\0\x02", 2))), ElementsAre(0, 1));
}

TEST(BlobValues, ThatDoNotFitAreNamed) {
  const auto error = [](const std::string& fields) { return ErrorIn(NetOfLayer(BytesField(7, fields))); };
  EXPECT_EQ(error(BytesField(12, Floats({1}))), "w: blob 0 of layer \"l\": raw_data without raw_data_type");
  EXPECT_EQ(error(NumberField(10, 6) + BytesField(12, "1234")), "w: blob 0 of layer \"l\": raw_data_type 6 is unknown");
  EXPECT_EQ(error(NumberField(10, 0) + BytesField(12, "1234")),
            "w: blob 0 of layer \"l\": raw_data of DOUBLE has 4 bytes");
  EXPECT_EQ(error(NumberField(1, 1) + NumberField(2, 2) + NumberField(3, 1) + NumberField(4, 1)),
            "w: blob 0 of layer \"l\": shape [1,2,1,1] needs 2 values but there are 0");
  EXPECT_THAT(error(BytesField(5, "123")), HasSubstr("a list of 4-byte values has 3 bytes"));
  EXPECT_THAT(error(NumberField(5, 1)), HasSubstr("field \"data\" has wire type 0, expected 5"));
  EXPECT_THAT(error(NumberField(1, UINT64_MAX) + BytesField(5, Floats({1}))), HasSubstr("blob 0 of layer \"l\""));
  EXPECT_THAT(error(BytesField(7, BytesField(1, std::string(40, '\1'))) + BytesField(5, Floats({1}))),
              HasSubstr("more than 32 dimensions"));
}

TEST(OldLayers, KeepTheirNamesTypesAndOrder) {
  const std::string blob = BytesField(5, Floats({1}));
  const std::string v1 = BytesField(
      2, BytesField(4, "fc") + NumberField(5, 14) + BytesField(2, "in") + BytesField(3, "out") + BytesField(6, blob));
  const std::string v0 =
      BytesField(2, BytesField(1, BytesField(1, "c") + BytesField(2, "conv") + BytesField(50, blob)));
  const std::string fork = BytesField(2, BytesField(4, "x") + NumberField(5, 45) + BytesField(6, blob));
  const Weights weights = WeightsFromBytes(v1 + v0 + fork, "w");
  ASSERT_EQ(weights.net.layer_size(), 3);
  EXPECT_EQ(weights.net.layer(0).type(), "InnerProduct");
  EXPECT_EQ(weights.net.layer(0).bottom(0), "in");
  EXPECT_EQ(weights.net.layer(0).top(0), "out");
  EXPECT_EQ(weights.net.layer(1).type(), "Convolution");
  EXPECT_EQ(weights.net.layer(1).name(), "c");
  EXPECT_FALSE(weights.net.layer(2).has_type());  // its number means another type in every fork
  EXPECT_EQ(weights.blobs.at(2).layer, "x");
}

TEST_F(CaffemodelFile, LargeFilesAreRefusedBeforeTheyAreRead) {
  const std::string file = At("large.caffemodel");
  std::ofstream(file) << NetOfLayer(BytesField(7, BytesField(5, Floats({1}))));
  fs::resize_file(file, (uintmax_t{1} << 31U) + 10);  // sparse
  const std::string text = ErrorTextOf([&] { ReadWeights(file); });
  EXPECT_THAT(text, HasSubstr("the file has 2.00 GiB, more than protobuf's 2 GiB"));
  EXPECT_THAT(text, HasSubstr(".safetensors"));
}

TEST_F(CaffemodelFile, IsWrittenAsTheMessageWouldBe) {
  NetParameter net = NetFromText(R"(
    name: "small" state { phase: TRAIN }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 } }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" })",
                                 "net");
  const std::vector<NamedBlob> blobs = {
      {"conv", 0, Shape({2, 1, 1, 1}), {1, -2}}, {"conv", 1, Shape({2}), {3, 4}}, {"extra", 0, Shape(), {5}}};
  WriteCaffemodel(At("w.caffemodel"), net, blobs);
  NetParameter read;
  ASSERT_TRUE(read.ParseFromString(ReadFile(At("w.caffemodel"))));
  ASSERT_EQ(read.layer_size(), 3);
  EXPECT_EQ(read.name(), "small");
  EXPECT_EQ(read.layer(0).convolution_param().num_output(), 2U);
  EXPECT_EQ(read.layer(0).blobs_size(), 2);
  EXPECT_EQ(read.layer(0).blobs(0).shape().dim_size(), 4);
  EXPECT_THAT(read.layer(0).blobs(0).data(), ElementsAre(1, -2));
  EXPECT_EQ(read.layer(1).type(), "ReLU");
  EXPECT_EQ(read.layer(2).name(), "extra");
  EXPECT_TRUE(read.layer(2).blobs(0).has_shape());
  EXPECT_THAT(read.layer(2).blobs(0).data(), ElementsAre(5));
}

TEST_F(CaffemodelFile, GoesToSafetensorsAndBackBitForBit) {
  const std::vector<NamedBlob> blobs = {
      {"a/b", 0, Shape({1, 3}), {-0.0F, std::numeric_limits<float>::denorm_min(), std::nanf("7")}},
      {"c", 0, Shape({2, 0}), {}},
      {"c", 1, Shape({1, 1, 1, 2}), {0.1F, 3e38F}}};
  NetParameter net = NetFromText(
      "name: \"n\" layer { name: \"c\" type: \"InnerProduct\" bottom: \"x\" top: \"y\" } "
      "layer { name: \"loss\" type: \"Silence\" bottom: \"y\" } layer { name: \"a/b\" type: \"PReLU\" }",
      "net");
  WriteCaffemodel(At("1.caffemodel"), net, blobs);
  const Weights first = ReadWeights(At("1.caffemodel"));
  std::map<std::string, std::string> metadata = first.metadata;
  AddNetToMetadata(NetOf(first), metadata);
  WriteSafetensors(At("2.safetensors"), first.blobs, metadata);
  const Weights second = ReadWeights(At("2.safetensors"));
  WriteCaffemodel(At("3.caffemodel"), NetOf(second), second.blobs);
  EXPECT_EQ(ReadFile(At("1.caffemodel")), ReadFile(At("3.caffemodel")));
}

TEST(MetadataNet, ThatCannotBeReadIsPassedOver) {
  Weights weights;
  EXPECT_EQ(NetOf(weights).layer_size(), 0);
  weights.metadata["caffe_net"] = "layer { name: ";
  EXPECT_EQ(NetOf(weights).layer_size(), 0);
}

TEST(CaffeNets, LeaveOutWhatBvlcDoesNotKnow) {
  NetParameter net = NetFromText(R"(
    name: "n" default_forward_type: FLOAT16 engine: "MKLDNN"
    layer { name: "p" type: "Permute" bottom: "a" top: "b" permute_param { order: 0 } forward_type: FLOAT16 }
    layer { name: "c" type: "Convolution" bottom: "b" top: "c"
      convolution_param { num_output: 3 engine: MKLDNN weight_filler { type: "msra" alpha: 0.1 } } }
    layer { name: "d" type: "ImageData" top: "d" transform_param { scale: 2 resize_param { prob: 1 } } }
    layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { engine: CUDNN } }
    layer { name: "k" type: "Clip" bottom: "c" top: "k" clip_param { min: 1 max: 2 } })",
                                 "net");
  net.mutable_layer(0)->mutable_origin()->set_line(3);
  net.mutable_layer(0)->add_blobs()->add_data(1);
  const NetParameter caffe = CaffeNet(net);
  EXPECT_EQ(NetToText(caffe), NetToText(NetFromText(R"(
    name: "n"
    layer { name: "p" type: "Permute" bottom: "a" top: "b" }
    layer { name: "c" type: "Convolution" bottom: "b" top: "c"
      convolution_param { num_output: 3 weight_filler { type: "msra" } } }
    layer { name: "d" type: "ImageData" top: "d" transform_param { scale: 2 } }
    layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { engine: CUDNN } }
    layer { name: "k" type: "Clip" bottom: "c" top: "k" clip_param { min: 1 max: 2 } })",
                                                    "net")));
  EXPECT_FALSE(caffe.layer(0).has_origin());
  EXPECT_EQ(caffe.layer(0).blobs_size(), 0);
}

TEST_F(CaffemodelFile, MeansAreReadInEverySpelling) {
  std::ofstream(At("raw.binaryproto")) << BytesField(7, BytesField(1, std::string("\1\1\1\2", 4))) +
                                              NumberField(10, 2) +
                                              BytesField(12, Raw<uint16_t>({HalfOfFloat(104), HalfOfFloat(0.5F)}));
  const NamedBlob raw = ReadBlobProtoFile(At("raw.binaryproto"));
  EXPECT_EQ(raw.shape, Shape({1, 1, 1, 2}));
  EXPECT_THAT(raw.values, ElementsAre(104, 0.5F));
  std::ofstream(At("old.binaryproto")) << NumberField(1, 1) + NumberField(2, 1) + NumberField(3, 1) +
                                              NumberField(4, 2) + BytesField(8, Raw<double>({3, 4}));
  EXPECT_THAT(ReadBlobProtoFile(At("old.binaryproto")).values, ElementsAre(3, 4));
  WriteBlobProtoFile(At("new.binaryproto"), Shape({1, 2}), std::vector<float>{8, 9});
  BlobProto message;
  ASSERT_TRUE(message.ParseFromString(ReadFile(At("new.binaryproto"))));
  EXPECT_EQ(message.shape().dim(1), 2);
  EXPECT_THAT(message.data(), ElementsAre(8, 9));
  std::ofstream(At("text")) << "shape { dim: 1 }\n";
  EXPECT_THAT(ErrorTextOf([&] { ReadBlobProtoFile(At("text")); }), HasSubstr("but this is a text file"));
}

}  // namespace
}  // namespace moka

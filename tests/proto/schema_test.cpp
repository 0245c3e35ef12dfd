// The schema's numbers are files' numbers: they may not change.
#include <gtest/gtest.h>

#include <google/protobuf/descriptor.h>

#include <map>
#include <set>

#include "proto/moka.pb.h"

namespace moka {
namespace {

TEST(Schema, KeepsCaffesNumbers) {
  const auto number = [](const google::protobuf::Descriptor* message, const char* field) {
    return message->FindFieldByName(field)->number();
  };
  EXPECT_EQ(number(NetParameter::descriptor(), "layer"), 100);
  EXPECT_EQ(number(NetParameter::descriptor(), "layers"), 2);
  EXPECT_EQ(number(LayerParameter::descriptor(), "blobs"), 7);
  EXPECT_EQ(number(LayerParameter::descriptor(), "clip_param"), 148);
  EXPECT_EQ(number(LayerParameter::descriptor(), "convolution_param"), 106);
  EXPECT_EQ(number(BlobProto::descriptor(), "data"), 5);
  EXPECT_EQ(number(BlobProto::descriptor(), "double_data"), 8);
  EXPECT_EQ(number(SolverParameter::descriptor(), "type"), 40);
  EXPECT_EQ(number(SolverState::descriptor(), "history"), 3);
  EXPECT_EQ(number(Datum::descriptor(), "encoded"), 7);
  EXPECT_EQ(number(V1LayerParameter::descriptor(), "blobs"), 6);
  EXPECT_EQ(V1LayerParameter::DECONVOLUTION, 39);
}

// The fields of BVLC Caffe numbered below 200 (SSD's begin there) by message, as the sum over name-number pairs would
// not tell which one is wrong.
TEST(Schema, HasAsManyFieldsOfCaffeAsCaffe) {
  const std::map<std::string, int> expected = {
      {"LayerParameter", 60},   {"NetParameter", 9},          {"SolverParameter", 42},  {"V1LayerParameter", 41},
      {"V0LayerParameter", 37}, {"ConvolutionParameter", 18}, {"PoolingParameter", 13}, {"DataParameter", 10}};
  for (const auto& [name, count] : expected) {
    const auto* message = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName("moka." + name);
    int caffe_fields = 0;
    for (int i = 0; i < message->field_count(); ++i) caffe_fields += message->field(i)->number() < 200 ? 1 : 0;
    EXPECT_EQ(caffe_fields, count) << name;
  }
}

}  // namespace
}  // namespace moka

// Walks the message by reflection and clears fields by number: BVLC's schema is the numbers below 1000 without SSD's.
#include "proto/nets/caffe_net.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace moka {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kFirstForeignNumber = 1000;

// Fields below 1000 that are SSD's: BVLC ends before them.
struct ForeignField {
  std::string_view message;
  int number;
};
constexpr std::array<ForeignField, 13> kForeignFields{{
    {"LayerParameter", 200},
    {"LayerParameter", 201},
    {"LayerParameter", 202},
    {"LayerParameter", 203},
    {"LayerParameter", 204},
    {"LayerParameter", 205},
    {"LayerParameter", 206},
    {"LayerParameter", 207},
    {"TransformationParameter", 8},
    {"TransformationParameter", 9},
    {"TransformationParameter", 10},
    {"TransformationParameter", 13},
    {"TransformationParameter", 14},
}};

// Enumerators below 1000 that are forks': the first of them, by the enum's name.
struct ForeignValues {
  std::string_view name;
  int first;
};
constexpr std::array<ForeignValues, 2> kForeignValues{{
    {"Engine", MKL2017},
    {"ReductionOp", 5},
}};

bool IsForeign(const FieldDescriptor& field) {
  if (field.number() >= kFirstForeignNumber) return true;
  return std::ranges::any_of(kForeignFields, [&](const ForeignField& foreign) {
    return foreign.number == field.number() && foreign.message == field.containing_type()->name();
  });
}

bool IsForeignValue(const EnumDescriptor& type, int value) {
  if (value >= kFirstForeignNumber) return true;
  return std::ranges::any_of(kForeignValues, [&](const ForeignValues& foreign) {
    return foreign.name == type.name() && value >= foreign.first;
  });
}

void Strip(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_foreign_value = field->enum_type() != nullptr && !field->is_repeated() &&
                                  IsForeignValue(*field->enum_type(), reflection.GetEnumValue(message, field));
    if (IsForeign(*field) || is_foreign_value) {
      reflection.ClearField(&message, field);
      continue;
    }
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      Strip(*reflection.MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      Strip(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
}

}  // namespace

NetParameter CaffeNet(const NetParameter& net) {
  NetParameter caffe = net;
  caffe.clear_layers();
  for (LayerParameter& layer : *caffe.mutable_layer()) layer.clear_blobs();
  Strip(caffe);
  return caffe;
}

}  // namespace moka

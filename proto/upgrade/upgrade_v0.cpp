// A table says where each V0 field of each type went, and the code walks it by reflection; Caffe has a chain of
// comparisons for the same.
#include "proto/upgrade/upgrade_v0.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct OldType {
  std::string_view name;
  V1LayerParameter::LayerType type;
};

constexpr std::array<OldType, 24> kTypes{{
    {"accuracy", V1LayerParameter::ACCURACY},
    {"bnll", V1LayerParameter::BNLL},
    {"concat", V1LayerParameter::CONCAT},
    {"conv", V1LayerParameter::CONVOLUTION},
    {"data", V1LayerParameter::DATA},
    {"dropout", V1LayerParameter::DROPOUT},
    {"euclidean_loss", V1LayerParameter::EUCLIDEAN_LOSS},
    {"flatten", V1LayerParameter::FLATTEN},
    {"hdf5_data", V1LayerParameter::HDF5_DATA},
    {"hdf5_output", V1LayerParameter::HDF5_OUTPUT},
    {"im2col", V1LayerParameter::IM2COL},
    {"images", V1LayerParameter::IMAGE_DATA},
    {"infogain_loss", V1LayerParameter::INFOGAIN_LOSS},
    {"innerproduct", V1LayerParameter::INNER_PRODUCT},
    {"lrn", V1LayerParameter::LRN},
    {"multinomial_logistic_loss", V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS},
    {"pool", V1LayerParameter::POOLING},
    {"relu", V1LayerParameter::RELU},
    {"sigmoid", V1LayerParameter::SIGMOID},
    {"softmax", V1LayerParameter::SOFTMAX},
    {"softmax_loss", V1LayerParameter::SOFTMAX_LOSS},
    {"split", V1LayerParameter::SPLIT},
    {"tanh", V1LayerParameter::TANH},
    {"window_data", V1LayerParameter::WINDOW_DATA},
}};

// Where a V0 field of a layer type went. An empty type means every type, an empty message V1's
// layer itself.
struct Move {
  std::string_view old_field;
  std::string_view type;
  std::string_view message;
  std::string_view field;
};

constexpr std::array<Move, 46> kMoves{{
    {"num_output", "conv", "convolution_param", "num_output"},
    {"num_output", "innerproduct", "inner_product_param", "num_output"},
    {"biasterm", "conv", "convolution_param", "bias_term"},
    {"biasterm", "innerproduct", "inner_product_param", "bias_term"},
    {"weight_filler", "conv", "convolution_param", "weight_filler"},
    {"weight_filler", "innerproduct", "inner_product_param", "weight_filler"},
    {"bias_filler", "conv", "convolution_param", "bias_filler"},
    {"bias_filler", "innerproduct", "inner_product_param", "bias_filler"},
    {"pad", "conv", "convolution_param", "pad"},
    {"pad", "pool", "pooling_param", "pad"},
    {"kernelsize", "conv", "convolution_param", "kernel_size"},
    {"kernelsize", "pool", "pooling_param", "kernel_size"},
    {"group", "conv", "convolution_param", "group"},
    {"stride", "conv", "convolution_param", "stride"},
    {"stride", "pool", "pooling_param", "stride"},
    {"pool", "pool", "pooling_param", "pool"},
    {"dropout_ratio", "dropout", "dropout_param", "dropout_ratio"},
    {"local_size", "lrn", "lrn_param", "local_size"},
    {"alpha", "lrn", "lrn_param", "alpha"},
    {"beta", "lrn", "lrn_param", "beta"},
    {"k", "lrn", "lrn_param", "k"},
    {"source", "data", "data_param", "source"},
    {"source", "hdf5_data", "hdf5_data_param", "source"},
    {"source", "images", "image_data_param", "source"},
    {"source", "window_data", "window_data_param", "source"},
    {"source", "infogain_loss", "infogain_loss_param", "source"},
    {"scale", "", "transform_param", "scale"},
    {"meanfile", "", "transform_param", "mean_file"},
    {"batchsize", "data", "data_param", "batch_size"},
    {"batchsize", "hdf5_data", "hdf5_data_param", "batch_size"},
    {"batchsize", "images", "image_data_param", "batch_size"},
    {"batchsize", "window_data", "window_data_param", "batch_size"},
    {"cropsize", "", "transform_param", "crop_size"},
    {"mirror", "", "transform_param", "mirror"},
    {"rand_skip", "data", "data_param", "rand_skip"},
    {"rand_skip", "images", "image_data_param", "rand_skip"},
    {"shuffle_images", "images", "image_data_param", "shuffle"},
    {"new_height", "images", "image_data_param", "new_height"},
    {"new_width", "images", "image_data_param", "new_width"},
    {"concat_dim", "concat", "concat_param", "concat_dim"},
    {"det_fg_threshold", "window_data", "window_data_param", "fg_threshold"},
    {"det_bg_threshold", "window_data", "window_data_param", "bg_threshold"},
    {"det_fg_fraction", "window_data", "window_data_param", "fg_fraction"},
    {"det_context_pad", "window_data", "window_data_param", "context_pad"},
    {"det_crop_mode", "window_data", "window_data_param", "crop_mode"},
    {"hdf5_output_param", "hdf5_output", "", "hdf5_output_param"},
}};

SourcePlace LayerPlace(const V1LayerParameter& layer) {
  const Origin& origin = layer.origin();
  return {.file = origin.file(), .line = origin.line(), .column = origin.column(), .length = origin.length()};
}

// Copies the value of one field into another of the same kind; enums go by number.
void CopyField(const Message& from, const FieldDescriptor& source, Message& to, const FieldDescriptor& target) {
  const Reflection& in = *from.GetReflection();
  const Reflection& out = *to.GetReflection();
  const bool add = target.is_repeated();
  switch (source.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const uint32_t value = in.GetUInt32(from, &source);
      return add ? out.AddUInt32(&to, &target, value) : out.SetUInt32(&to, &target, value);
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      // new_height and new_width were signed.
      const auto value = static_cast<uint32_t>(in.GetInt32(from, &source));
      return out.SetUInt32(&to, &target, value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: return out.SetFloat(&to, &target, in.GetFloat(from, &source));
    case FieldDescriptor::CPPTYPE_BOOL: return out.SetBool(&to, &target, in.GetBool(from, &source));
    case FieldDescriptor::CPPTYPE_STRING: return out.SetString(&to, &target, in.GetString(from, &source));
    case FieldDescriptor::CPPTYPE_ENUM: return out.SetEnumValue(&to, &target, in.GetEnumValue(from, &source));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return out.MutableMessage(&to, &target)->CopyFrom(in.GetMessage(from, &source));
    default: Require(false, "UpgradeV0: fields of the table have one of the kinds above");
  }
}

const Move* FindMove(std::string_view field, std::string_view type) {
  for (const Move& move : kMoves) {
    if (move.old_field == field && (move.type.empty() || move.type == type)) return &move;
  }
  return nullptr;
}

V1LayerParameter::LayerType NewType(const V1LayerParameter& layer) {
  const std::string& name = layer.layer().type();
  const V1LayerParameter::LayerType found = V1TypeOf(name);
  if (found != V1LayerParameter::NONE) return found;
  std::vector<std::string> names;
  names.reserve(kTypes.size());
  for (const OldType& type : kTypes) names.emplace_back(type.name);
  throw Error(ErrorKind::kConfig, LayerPlace(layer),
              StrCat("unknown layer type \"", name, "\" in an old (V0) layer \"", layer.layer().name(), "\""),
              DidYouMean(name, names));
}

void MoveFields(const V0LayerParameter& old, V1LayerParameter& layer, const std::string& file) {
  static const std::vector<std::string_view> kKept = {"name", "type", "blobs", "blobs_lr", "weight_decay"};
  static const std::vector<std::string_view> kIgnored = {"new_num", "new_channels"};
  std::vector<const FieldDescriptor*> fields;
  old.GetReflection()->ListFields(old, &fields);
  for (const FieldDescriptor* field : fields) {
    const auto is = [&](std::string_view name) { return name == field->name(); };
    if (std::any_of(kKept.begin(), kKept.end(), is) || std::any_of(kIgnored.begin(), kIgnored.end(), is)) continue;
    const Move* move = FindMove(field->name(), old.type());
    if (move == nullptr) {
      LogWarning(StrCat(file, ": old layer \"", old.name(), "\" of type \"", old.type(), "\" never had a parameter \"",
                        field->name(), "\"; it is dropped"));
      continue;
    }
    Message* target = &layer;
    if (!move->message.empty()) {
      const FieldDescriptor* message = layer.GetDescriptor()->FindFieldByName(std::string(move->message));
      target = layer.GetReflection()->MutableMessage(&layer, message);
    }
    CopyField(old, *field, *target, *target->GetDescriptor()->FindFieldByName(std::string(move->field)));
  }
}

void UpgradeLayer(V1LayerParameter& connection, const std::string& file) {
  V1LayerParameter layer;
  *layer.mutable_bottom() = connection.bottom();
  *layer.mutable_top() = connection.top();
  *layer.mutable_origin() = connection.origin();
  if (connection.has_layer()) {
    if (connection.layer().has_type()) layer.set_type(NewType(connection));
    V0LayerParameter& old = *connection.mutable_layer();
    if (old.has_name()) layer.set_name(old.name());
    layer.mutable_blobs()->Swap(old.mutable_blobs());
    layer.mutable_blobs_lr()->Swap(old.mutable_blobs_lr());
    layer.mutable_weight_decay()->Swap(old.mutable_weight_decay());
    MoveFields(old, layer, file);
  }
  connection.Swap(&layer);
}

void RequireOne(const V1LayerParameter& layer, int count, std::string_view what) {
  if (count == 1) return;
  throw Error(
      ErrorKind::kConfig, LayerPlace(layer),
      StrCat("layer \"", layer.layer().name(), "\" next to a padding layer has ", count, " ", what, ", expected 1"));
}

// A padding layer's pad goes to the convolution or pooling that reads it.
void FoldPadding(NetParameter& net) {
  NetParameter folded = net;
  folded.clear_layers();
  std::map<std::string, int> maker;  // blob -> layer that made it last; -1: an input
  for (const std::string& input : net.input()) maker[input] = -1;
  for (int i = 0; i < net.layers_size(); ++i) {
    const V1LayerParameter& layer = net.layers(i);
    const std::string& type = layer.layer().type();
    if (type != "padding") *folded.add_layers() = layer;
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const auto made = maker.find(layer.bottom(j));
      if (made == maker.end()) {
        throw Error(ErrorKind::kConfig, LayerPlace(layer),
                    StrCat("bottom \"", layer.bottom(j), "\" of old layer \"", layer.layer().name(),
                           "\" is made by no earlier layer"));
      }
      if (made->second == -1 || net.layers(made->second).layer().type() != "padding") continue;
      const V1LayerParameter& padding = net.layers(made->second);
      if (type != "conv" && type != "pool") {
        throw Error(ErrorKind::kConfig, LayerPlace(layer),
                    StrCat("a padding layer is read by layer \"", layer.layer().name(), "\" of type \"", type,
                           "\"; only conv and pool can take its padding"));
      }
      RequireOne(layer, layer.bottom_size(), "bottoms");
      RequireOne(padding, padding.bottom_size(), "bottoms");
      RequireOne(padding, padding.top_size(), "tops");
      V1LayerParameter& reader = *folded.mutable_layers(folded.layers_size() - 1);
      reader.mutable_layer()->set_pad(padding.layer().pad());
      reader.set_bottom(j, padding.bottom(0));
    }
    for (const std::string& top : layer.top()) maker[top] = i;
  }
  net.Swap(&folded);
}

}  // namespace

V1LayerParameter::LayerType V1TypeOf(std::string_view v0_type) {
  const auto* const type = std::ranges::find(kTypes, v0_type, &OldType::name);
  return type == kTypes.end() ? V1LayerParameter::NONE : type->type;
}

void UpgradeV0Net(NetParameter& net, const std::string& file) {
  FoldPadding(net);
  for (V1LayerParameter& layer : *net.mutable_layers()) UpgradeLayer(layer, file);
  // Caffe keeps only name, layers, inputs and force_backward of such nets.
  net.clear_input_shape();
  net.clear_state();
  net.clear_debug_info();
}

}  // namespace moka

// The steps run in Caffe's order and each is a no-op on what is new already, so that a mixed file comes out right.
// Places in the text move with the fields.
#include "proto/upgrade/upgrade.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/origins.h"
#include "proto/text/places.h"
#include "proto/upgrade/moved_fields.h"
#include "proto/upgrade/spark_sources.h"
#include "proto/upgrade/upgrade_v0.h"
#include "proto/upgrade/volume_fields.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// scale, mean_file, crop_size and mirror moved from a data layer's parameter to transform_param.
template <class DataMessage>
bool MoveTransformation(DataMessage& data, const std::string& param, V1LayerParameter& layer) {
  if (!data.has_scale() && !data.has_mean_file() && !data.has_crop_size() && !data.has_mirror()) return false;
  RequireSameTransform(layer.origin(), layer.name(), param, data, layer.transform_param());
  TransformationParameter& transform = *layer.mutable_transform_param();
  if (data.has_scale()) transform.set_scale(data.scale());
  if (data.has_mean_file()) transform.set_mean_file(data.mean_file());
  if (data.has_crop_size()) transform.set_crop_size(data.crop_size());
  if (data.has_mirror()) transform.set_mirror(data.mirror());
  data.clear_scale();
  data.clear_mean_file();
  data.clear_crop_size();
  data.clear_mirror();
  return true;
}

bool UpgradeDataTransformation(NetParameter& net) {
  bool changed = false;
  for (V1LayerParameter& layer : *net.mutable_layers()) {
    if (layer.type() == V1LayerParameter::DATA && layer.has_data_param()) {
      changed |= MoveTransformation(*layer.mutable_data_param(), "data_param", layer);
    } else if (layer.type() == V1LayerParameter::IMAGE_DATA && layer.has_image_data_param()) {
      changed |= MoveTransformation(*layer.mutable_image_data_param(), "image_data_param", layer);
    } else if (layer.type() == V1LayerParameter::WINDOW_DATA && layer.has_window_data_param()) {
      changed |= MoveTransformation(*layer.mutable_window_data_param(), "window_data_param", layer);
    }
  }
  return changed;
}

ParamSpec& ParamAt(LayerParameter& layer, int index) {
  while (layer.param_size() <= index) layer.add_param();
  return *layer.mutable_param(index);
}

// A V1 field's path under its new name: "blobs_lr[1]" is now "param[1].lr_mult".
std::string NewPath(const std::string& path) {
  const auto renamed = [&](std::string_view old_name, std::string_view field) -> std::string {
    if (!path.starts_with(StrCat(old_name, "["))) return {};
    return StrCat("param", path.substr(old_name.size()), ".", field);
  };
  for (const auto& [old_name, field] : {std::pair{"blobs_lr", "lr_mult"}, std::pair{"weight_decay", "decay_mult"},
                                        std::pair{"blob_share_mode", "share_mode"}, std::pair{"param", "name"}}) {
    std::string now = renamed(old_name, field);
    if (!now.empty()) return now;
  }
  return path;
}

// Blobs and names are moved out of the V1 layer.
LayerParameter UpgradeV1Layer(V1LayerParameter& old, const std::string& file) {
  LayerParameter layer;
  layer.mutable_bottom()->Swap(old.mutable_bottom());
  layer.mutable_top()->Swap(old.mutable_top());
  if (old.has_name()) layer.set_name(old.name());
  layer.mutable_include()->Swap(old.mutable_include());
  layer.mutable_exclude()->Swap(old.mutable_exclude());
  if (old.origin().has_v1_type()) {
    layer.set_type(old.origin().v1_type());
    old.mutable_origin()->clear_v1_type();
  } else if (old.has_type()) {
    layer.set_type(LayerTypeOf(old.type()));
  }
  layer.mutable_blobs()->Swap(old.mutable_blobs());
  for (int i = 0; i < old.param_size(); ++i) ParamAt(layer, i).set_name(old.param(i));
  for (int i = 0; i < old.blob_share_mode_size(); ++i) {
    ParamAt(layer, i).set_share_mode(old.blob_share_mode(i) == V1LayerParameter::STRICT ? ParamSpec::STRICT
                                                                                        : ParamSpec::PERMISSIVE);
  }
  for (int i = 0; i < old.blobs_lr_size(); ++i) ParamAt(layer, i).set_lr_mult(old.blobs_lr(i));
  for (int i = 0; i < old.weight_decay_size(); ++i) ParamAt(layer, i).set_decay_mult(old.weight_decay(i));
  layer.mutable_loss_weight()->Swap(old.mutable_loss_weight());
  layer.mutable_propagate_down()->Swap(old.mutable_propagate_down());
  if (old.has_origin()) {
    layer.mutable_origin()->Swap(old.mutable_origin());
    for (FieldPlace& field : *layer.mutable_origin()->mutable_field()) field.set_path(NewPath(field.path()));
  }
  // The *_param messages have the same names in both.
  const Reflection& in = *old.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  in.ListFields(old, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->message_type() == Origin::descriptor()) continue;
    const FieldDescriptor* target = LayerParameter::descriptor()->FindFieldByName(field->name());
    if (target == nullptr || target->message_type() != field->message_type()) continue;
    layer.GetReflection()->MutableMessage(&layer, target)->CopyFrom(in.GetMessage(old, field));
  }
  // The forks that brought CROP told its offset from the windows between the bottoms.
  if (layer.type() == "Crop" && !layer.has_crop_param()) layer.set_type("AutoCrop");
  if (old.type() == V1LayerParameter::BN_DATA && !layer.bn_param().has_var_eps()) {
    layer.mutable_bn_param()->set_var_eps(1e-10F);
  }
  if (old.has_softmaxloss_param() && !old.has_loss_param()) *layer.mutable_loss_param() = old.softmaxloss_param();
  if (old.has_layer())
    LogWarning(StrCat(file, ": layer \"", layer.name(), "\" holds an older (V0) layer; it is ignored"));
  return layer;
}

void UpgradeV1Net(NetParameter& net, const std::string& file) {
  for (V1LayerParameter& old : *net.mutable_layers()) *net.add_layer() = UpgradeV1Layer(old, file);
  net.clear_layers();
}

std::pair<int, int> LineAndColumn(const Origin& origin) { return {origin.line(), origin.column()}; }

// Caffe refuses a net with both `layer` and `layers`. A text says in which order they are; a binary net does not.
void RequireOrder(const NetParameter& net, bool has_v0) {
  const auto has_line = [](const auto& layer) { return layer.origin().line() > 0; };  // an override's has none
  if (!has_v0 && std::all_of(net.layer().begin(), net.layer().end(), has_line) &&
      std::all_of(net.layers().begin(), net.layers().end(), has_line)) {
    return;
  }
  throw Error(ErrorKind::kConfig, PlaceOf(net.layer(0)), "the net has both \"layer\" and the older \"layers\"",
              "write all of them as layer { type: \"...\" }");
}

void UpgradeMixedNet(NetParameter& net, const std::string& file) {
  const bool begins_old = LineAndColumn(net.layers(0).origin()) < LineAndColumn(net.layer(0).origin());
  const SourcePlace other = PlaceOf(begins_old ? net.layer(0).origin() : net.layers(0).origin(), {});
  LogWarning(StrCat(other.ToString(), ": ", begins_old ? "\"layer\"" : "the older \"layers\"", " stands here beside ",
                    begins_old ? "the older \"layers\"" : "\"layer\"",
                    "; both are read, in the order of the file, but Caffe refuses such a net (\"moka model expand\" "
                    "prints it with \"layer\" only)"));
  UpgradeV1Net(net, file);
  std::stable_sort(net.mutable_layer()->pointer_begin(), net.mutable_layer()->pointer_end(),
                   [](const LayerParameter* a, const LayerParameter* b) {
                     return LineAndColumn(a->origin()) < LineAndColumn(b->origin());
                   });
}

// Inputs without shapes and shapes without inputs: no layer would come of them. Old files of weights have such, where
// nothing is known of a place.
void RequireInputsWithShapes(const NetParameter& net) {
  const auto refuse = [&](std::string_view field, const std::string& text, const std::string& hint) {
    const SourcePlace place = PlaceOf(net, field);
    if (place.line > 0 || IsOverridden(place)) throw Error(ErrorKind::kConfig, place, text, hint);
  };
  const bool has_shapes = net.input_shape_size() > 0;
  const std::string_view shapes = has_shapes ? "input_shape" : "input_dim";
  if (net.input_size() == 0) {
    refuse(StrCat(shapes, "[0]"), StrCat("the net has ", shapes, " but no input"), "name it: input: \"data\"");
  } else if (!has_shapes && net.input_dim_size() == 0) {
    const auto makes_it = [&](const LayerParameter& layer) {
      return std::ranges::find(layer.top(), net.input(0)) != layer.top().end();
    };
    const auto maker = std::ranges::find_if(net.layer(), makes_it);
    refuse("input[0]", StrCat("input \"", Printable(net.input(0)), "\" has no shape"),
           maker == net.layer().end()
               ? std::string("give it behind the name: input_shape { dim: 1 dim: 3 dim: 224 dim: 224 }")
               : StrCat("the ", Printable(Located(*maker)), " makes that blob: delete the line input: \"",
                        Printable(net.input(0)), "\""));
  } else if (has_shapes && net.input_dim_size() > 0) {
    refuse("input_dim[0]", "the net has input_shape and input_dim", "give one of them");
  }
}

// Input fields become an Input layer at the front. Inputs without shapes stand in old weight files and are dropped.
void UpgradeInput(NetParameter& net) {
  RequireInputsWithShapes(net);
  const SourcePlace place = PlaceOf(net, "input[0]");
  const int inputs = net.input_size();
  if (net.input_shape_size() > 0 && net.input_shape_size() != inputs) {
    throw Error(ErrorKind::kConfig, PlaceOf(net, "input_shape[0]"),
                StrCat("the net has ", inputs, " input but ", net.input_shape_size(), " input_shape"),
                "give one shape an input");
  }
  const bool uses_dims = net.input_shape_size() == 0 && net.input_dim_size() > 0;
  // Four an input; five in nets of C3D's Caffe: [N,C,length,H,W].
  const int each = net.input_dim_size() == int64_t{5} * inputs ? 5 : 4;
  if (uses_dims && net.input_dim_size() != int64_t{each} * inputs) {
    throw Error(ErrorKind::kConfig, PlaceOf(net, "input_dim[0]"),
                StrCat("the net has ", inputs, " input but ", net.input_dim_size(), " input_dim, expected ",
                       int64_t{4} * inputs),
                "give four an input (five for [N,C,length,H,W]), or use input_shape { dim: ... }");
  }
  if (uses_dims || net.input_shape_size() > 0) {
    LayerParameter layer;
    layer.set_name("input");
    layer.set_type("Input");
    for (int i = 0; i < inputs; ++i) {
      layer.add_top(net.input(i));
      BlobShape& shape = *layer.mutable_input_param()->add_shape();
      if (!uses_dims) shape = net.input_shape(i);
      for (int j = 0; uses_dims && j < each; ++j) shape.add_dim(net.input_dim(each * i + j));
    }
    Origin& origin = *layer.mutable_origin();
    origin.set_file(place.file);
    origin.set_line(place.line);
    origin.set_column(place.column);
    origin.set_length(place.length);
    net.add_layer()->Swap(&layer);
    std::rotate(net.mutable_layer()->pointer_begin(), net.mutable_layer()->pointer_end() - 1,
                net.mutable_layer()->pointer_end());
  }
  net.clear_input();
  net.clear_input_shape();
  net.clear_input_dim();
}

// BatchNorm's three blobs are statistics: written with three param, their rates are forced to zero.
bool UpgradeBatchNorm(NetParameter& net) {
  bool changed = false;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "BatchNorm" || layer.param_size() != 3) continue;
    for (ParamSpec& param : *layer.mutable_param()) {
      changed |= param.lr_mult() != 0 || param.decay_mult() != 0;
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
  }
  return changed;
}

}  // namespace

std::string LayerTypeOf(V1LayerParameter::LayerType type) {
  static const std::map<V1LayerParameter::LayerType, std::string> exceptions = {
      {V1LayerParameter::NONE, ""},
      {V1LayerParameter::ABSVAL, "AbsVal"},
      {V1LayerParameter::ARGMAX, "ArgMax"},
      {V1LayerParameter::BNLL, "BNLL"},
      {V1LayerParameter::BN, "BN"},
      // One process of those that a net was cut into has all of it.
      {V1LayerParameter::BN_DATA, "BN"},
      {V1LayerParameter::CONVOLUTION3D, "NdConvolution"},
      {V1LayerParameter::CONVOLUTION_DATA, "Convolution"},
      {V1LayerParameter::DECONVOLUTION3D, "Deconvolution"},
      {V1LayerParameter::HDF5_DATA, "HDF5Data"},
      {V1LayerParameter::HDF5_OUTPUT, "HDF5Output"},
      {V1LayerParameter::INNER_PRODUCT_ALL, "InnerProduct"},
      {V1LayerParameter::INNER_PRODUCT_DATA, "InnerProduct"},
      {V1LayerParameter::LRN, "LRN"},
      {V1LayerParameter::LSTM, "LSTM"},
      {V1LayerParameter::MVN, "MVN"},
      {V1LayerParameter::POOLING3D, "NdPooling"},
      {V1LayerParameter::PRELU, "PReLU"},
      {V1LayerParameter::RELU, "ReLU"},
      {V1LayerParameter::RELU6, "ReLU6"},
      // Its gates are all open unless a program of its fork closes them.
      {V1LayerParameter::RELUPLUS, "ReLU"},
      {V1LayerParameter::ROIPOOLING, "ROIPooling"},
      {V1LayerParameter::SMOOTH_L1_LOSS, "SmoothL1Loss"},
      {V1LayerParameter::SOFTMAX_LOSS, "SoftmaxWithLoss"},
      {V1LayerParameter::SOFTMAX_LOSS_DATA, "SoftmaxWithLoss"},
      {V1LayerParameter::TANH, "TanH"},
      {V1LayerParameter::VOXEL_SOFTMAX, "Softmax"},
  };
  const auto exception = exceptions.find(type);
  if (exception != exceptions.end()) return exception->second;
  return LayerTypeOf(V1LayerParameter::LayerType_Name(type));
}

std::string LayerTypeOf(std::string_view v1_name) {
  if (std::any_of(v1_name.begin(), v1_name.end(), [](unsigned char c) { return std::islower(c) != 0; })) {
    return std::string(v1_name);
  }
  std::string name;
  for (const std::string& word : Split(v1_name, '_')) {
    name += word.substr(0, 1);
    if (!word.empty()) name += AsciiLower(word.substr(1));
  }
  return name;
}

bool UpgradeNet(NetParameter& net, const std::string& file) {
  std::vector<std::string> done;
  const bool has_v0 =
      std::any_of(net.layers().begin(), net.layers().end(), [](const V1LayerParameter& l) { return l.has_layer(); });
  const bool is_mixed = net.layer_size() > 0 && net.layers_size() > 0;
  if (is_mixed) RequireOrder(net, has_v0);
  if (has_v0) {
    UpgradeV0Net(net, file);
    done.emplace_back("V0 layers");
  }
  if (UpgradeDataTransformation(net)) done.emplace_back("data transformation fields");
  if (is_mixed) {
    UpgradeMixedNet(net, file);
  } else if (net.layers_size() > 0) {
    UpgradeV1Net(net, file);
    if (!has_v0) done.emplace_back("V1 layers (\"layers\")");
  }
  if (RenameVolumeFields(net)) done.emplace_back("convolution3d_param, pooling3d_param and pooling_nd_param");
  if (net.input_size() > 0 || net.input_shape_size() > 0 || net.input_dim_size() > 0) {
    UpgradeInput(net);
    done.emplace_back("input fields");
  }
  if (UpgradeSparkSources(net)) done.emplace_back("CaffeOnSpark's LMDB sources");
  if (UpgradeBatchNorm(net)) done.emplace_back("learning rates of BatchNorm statistics");
  if (done.empty()) return is_mixed;
  LogWarning(StrCat(file, ": upgraded from an old spelling: ", Join(done, ", "),
                    " (\"moka model expand\" prints the new one)"));
  return true;
}

bool UpgradeSolver(SolverParameter& solver, const std::string& file) {
  if (!solver.has_solver_type()) return false;
  if (solver.has_type()) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "solver_type"),
                "the solver has both \"type\" and the deprecated \"solver_type\"", "remove solver_type");
  }
  switch (solver.solver_type()) {
    case SolverParameter::SGD: solver.set_type("SGD"); break;
    case SolverParameter::NESTEROV: solver.set_type("Nesterov"); break;
    case SolverParameter::ADAGRAD: solver.set_type("AdaGrad"); break;
    case SolverParameter::RMSPROP: solver.set_type("RMSProp"); break;
    case SolverParameter::ADADELTA: solver.set_type("AdaDelta"); break;
    case SolverParameter::ADAM: solver.set_type("Adam"); break;
    case SolverParameter::SAG: solver.set_type("SAG"); break;
  }
  const SourcePlace place = PlaceOf(solver, "solver_type");
  LogWarning(StrCat(IsOverridden(place) ? place.file : file, ": solver_type is deprecated; read as type: \"",
                    solver.type(), "\""));
  solver.clear_solver_type();
  if (!solver.has_origin()) return true;
  ForgetField(*solver.mutable_origin(), "type");
  for (FieldPlace& field : *solver.mutable_origin()->mutable_field()) {
    if (field.path() == "solver_type") field.set_path("type");
  }
  return true;
}

}  // namespace moka

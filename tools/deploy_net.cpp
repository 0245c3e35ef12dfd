#include "tools/deploy_net.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline.h"

namespace moka {
namespace {

LayerParameter DeployNetInputLayer(const LayerParameter& data, const Shape& shape) {
  LayerParameter input;
  input.set_name(data.name());
  input.set_type("Input");
  input.add_top(data.top(0));
  if (data.has_transform_param()) *input.mutable_transform_param() = data.transform_param();
  // How pictures come to lie on a canvas.
  if (data.record_data_param().canvas_height() > 0) *input.mutable_record_data_param() = data.record_data_param();
  if (data.has_origin()) *input.mutable_origin() = data.origin();
  BlobShape* blob = input.mutable_input_param()->add_shape();
  for (const int64_t dim : shape.dims()) blob->add_dim(dim);
  return input;
}

// The layer without its labels, or nothing if it makes no sense without them.
bool WithoutLabels(const LayerParameter& layer, LayerParameter& out) {
  out = layer;
  if (layer.type() != "SoftmaxWithLoss" && layer.type() != "SigmoidCrossEntropyLoss") return false;
  const bool softmax = layer.type() == "SoftmaxWithLoss";
  out.set_type(softmax ? "Softmax" : "Sigmoid");
  out.set_name("prob");
  out.clear_bottom();
  out.add_bottom(layer.bottom(0));
  out.clear_top();
  out.add_top("prob");
  out.clear_loss_weight();
  out.clear_loss_param();
  out.clear_propagate_down();
  return true;
}

}  // namespace

NetParameter DeployNet(const NetParameter& net, const Shape& input_shape) {
  NetParameter deploy = net;
  deploy.clear_layer();
  std::set<std::string> gone;  // blobs that are not there without labels
  bool has_prob = false;
  bool has_input = false;
  for (const LayerParameter& layer : net.layer()) {
    if (IsPipelineLayer(layer.type()) && layer.top_size() > 0) {
      if (!has_input) *deploy.add_layer() = DeployNetInputLayer(layer, input_shape);
      for (int i = has_input ? 0 : 1; i < layer.top_size(); ++i) gone.insert(layer.top(i));
      has_input = true;
      continue;
    }
    if (layer.type() == "Input") {
      *deploy.add_layer() = layer;
      BlobShape* shape = deploy.mutable_layer(deploy.layer_size() - 1)->mutable_input_param()->mutable_shape(0);
      if (shape->dim_size() > 0) shape->set_dim(0, input_shape[0]);
      has_input = true;
      continue;
    }
    const bool needs_labels = std::any_of(layer.bottom().begin(), layer.bottom().end(),
                                          [&](const std::string& bottom) { return gone.contains(bottom); });
    if (!needs_labels) {
      *deploy.add_layer() = layer;
      continue;
    }
    for (const std::string& top : layer.top()) gone.insert(top);
    LayerParameter changed;
    if (has_prob || gone.contains(layer.bottom(0)) || !WithoutLabels(layer, changed)) continue;
    *deploy.add_layer() = changed;
    gone.erase("prob");
    has_prob = true;
  }
  if (deploy.layer_size() < 2)
    throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" computes nothing without labels"));
  return deploy;
}

const LayerParameter& ImageInput(const NetParameter& deploy) {
  for (const LayerParameter& layer : deploy.layer()) {
    if (layer.type() == "Input") return layer;
  }
  throw Error(ErrorKind::kConfig, StrCat("net \"", deploy.name(), "\" has no Input layer a picture could go to"));
}

}  // namespace moka

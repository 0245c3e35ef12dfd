// Running: passes over the layers, new shapes, weights in and out.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/layerwise/net.h"
#include "optim/step/step_program.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Caffe fills constant tops of DummyData once, so what is written into them later stays.
bool IsConstantTop(const LayerParameter& param, int top) {
  if (TraitsOf(param).data != DataKind::kFillers) return false;
  const auto& fillers = param.dummy_data_param().data_filler();
  return fillers.empty() || fillers.Get(fillers.size() == 1 ? 0 : top).type() == "constant";
}

}  // namespace

// Brings a layer's tops in step with its bottoms' shapes.
void LayerwiseNet::FitLayer(Layer& layer) {
  if (layer.is_split) {
    for (const auto& top : layer.tops) {
      top->Reshape(layer.bottoms[0]->shape());
      top->SetData(layer.bottoms[0]->data(), Blob::Memory::kOwn);
    }
    return;
  }
  if (layer.external) return layer.external->Reshape(layer.bottoms, layer.tops);
  std::vector<Shape> shapes;
  for (const auto& bottom : layer.bottoms) shapes.push_back(bottom->shape());
  const bool is_new = shapes != layer.program->bottoms();
  if (is_new) {
    const LayerProgram::Description& description = layer.program->Build(shapes);
    for (size_t i = 0; i < layer.net_blobs.size(); ++i) {
      const Shape& needed = description.blobs.at(i).shape;
      if (needed.Count() == layer.net_blobs[i].shape.Count()) continue;
      throw ErrorAt(layer.param, {},
                    StrCat("layer \"", layer.param.name(), "\": with bottom \"", layer.param.bottom(0), "\" of shape ",
                           shapes[0].ToString(), " parameter ", i, " would have the shape ", needed.ToString(),
                           " but it has ", layer.net_blobs[i].shape.ToString()),
                    "its size cannot change any more; give the bottom its first shape");
    }
  }
  // An input keeps the shape its user gave it.
  if (layer.is_set_up && layer.is_fed && TraitsOf(layer.param).data == DataKind::kInput) return;
  layer.is_set_up = true;
  const std::vector<Shape>& tops = layer.program->description().tops;
  for (size_t i = 0; i < tops.size(); ++i) {
    const bool changes = layer.tops[i]->count() != tops[i].Count();
    layer.tops[i]->Reshape(tops[i]);
    if (changes) SeedLosses(layer);
  }
}

void LayerwiseNet::CheckRange(int first, int last) const {
  const int count = static_cast<int>(layers_.size());
  if (first >= 0 && last < count && (first <= last || count == 0)) return;
  throw Error(ErrorKind::kUsage, StrCat("layers ", first, " to ", last, " of a net that has layers 0 to ", count - 1,
                                        first > last ? ": the first comes after the last" : ""));
}

void LayerwiseNet::Run(Hook hook, int index) {
  for (const auto& call : hooks_[static_cast<size_t>(hook)]) call(index);
}

void LayerwiseNet::AddHook(Hook hook, std::function<void(int)> call) {
  const std::lock_guard lock(mutex_);
  hooks_[static_cast<size_t>(hook)].push_back(std::move(call));
}

double LayerwiseNet::Forward(int start, int end) {
  const std::lock_guard lock(mutex_);
  CheckRange(start, end);
  ++passes_;
  double loss = 0;
  for (int i = start; i <= end; ++i) {
    Run(Hook::kBeforeForward, i);
    loss += ForwardLayer(i);
    Run(Hook::kAfterForward, i);
  }
  return loss;
}

void LayerwiseNet::NextBatch(Layer& layer) {
  Pipeline* source = pipeline(layer.param.name());
  if (source == nullptr) return;  // the caller writes the blobs
  std::vector<Tensor> tops;
  BlobList aside;
  for (size_t i = 0; i < layer.tops.size(); ++i) {
    const TensorType& type = source->types()[i];
    layer.tops[i]->Reshape(type.shape);
    const bool keeps = IsConstantTop(layer.param, static_cast<int>(i));
    if (keeps) aside.push_back(std::make_shared<Blob>(type.shape));
    tops.emplace_back(type, keeps ? aside.back()->data().get() : layer.tops[i]->data().get());
  }
  source->Next(tops);
}

double LayerwiseNet::ForwardLayer(int index) {
  Layer& layer = *layers_[static_cast<size_t>(index)];
  FitLayer(layer);
  if (layer.external) {
    layer.external->Forward(layer.bottoms, layer.tops);
  } else if (layer.is_fed) {
    NextBatch(layer);
  } else if (layer.program) {
    layer.program->Forward(layer.bottoms, layer.tops, RandomKey(options_.seed, passes_, index));
  }
  double loss = 0;
  for (size_t i = 0; i < layer.tops.size(); ++i) {
    if (layer.loss_weights[i] == 0) continue;
    const std::span<const float> values = layer.tops[i]->values();
    const std::span<const float> weights = layer.tops[i]->gradient();
    for (size_t k = 0; k < values.size(); ++k) loss += static_cast<double>(values[k]) * static_cast<double>(weights[k]);
  }
  return loss;
}

void LayerwiseNet::Backward(int start, int end) {
  const std::lock_guard lock(mutex_);
  CheckRange(end, start);
  for (int i = start; i >= end; --i) {
    Run(Hook::kBeforeBackward, i);
    if (layers_[static_cast<size_t>(i)]->visits) BackwardLayer(i);
    Run(Hook::kAfterBackward, i);
  }
}

void LayerwiseNet::BackwardLayer(int index) {
  Layer& layer = *layers_[static_cast<size_t>(index)];
  if (layer.external) return layer.external->Backward(layer.tops, layer.wanted_bottoms, layer.bottoms);
  if (layer.is_fed) return;
  if (layer.is_split) {
    if (layer.wanted_bottoms[0] == 0) return;
    const std::span<float> sum = layer.bottoms[0]->gradient();
    std::ranges::fill(sum, 0.0F);
    for (const auto& top : layer.tops) {
      const std::span<const float> part = top->gradient();
      for (size_t k = 0; k < sum.size() && k < part.size(); ++k) sum[k] += part[k];
    }
    return;
  }
  FitLayer(layer);
  const auto is_wanted = [](char wanted) { return wanted != 0; };
  if (std::ranges::none_of(layer.wanted_bottoms, is_wanted) && std::ranges::none_of(layer.wanted_blobs, is_wanted))
    return;
  layer.program->Backward(layer.tops, layer.bottoms, *layer.blobs, {layer.wanted_bottoms, layer.wanted_blobs});
}

void LayerwiseNet::Reshape() {
  const std::lock_guard lock(mutex_);
  for (const auto& layer : layers_) FitLayer(*layer);
}

void LayerwiseNet::ClearParamDiffs() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, blob] : owned_) {
    if (blob->has_diff()) std::ranges::fill(blob->gradient(), 0.0F);
  }
}

void LayerwiseNet::WithWeights(const std::function<void(const std::vector<NetBlob>&, ParameterStore&)>& use) const {
  const std::lock_guard lock(mutex_);
  use(net_blobs(), parameters_->store);
}

void LayerwiseNet::ShareWith(const LayerwiseNet& other) {
  if (this == &other) return;
  const std::scoped_lock lock(mutex_, other.mutex_);
  std::map<std::string, std::string> keys;  // this net's -> the store's
  for (const auto& from : other.layers_) {
    const auto to = std::ranges::find_if(layers_, [&](const auto& l) { return l->param.name() == from->param.name(); });
    if (to == layers_.end() || from->net_blobs.empty()) continue;
    const std::vector<NetBlob>& target = (*to)->net_blobs;
    const bool fits = std::ranges::equal(target, from->net_blobs, {}, &NetBlob::shape, &NetBlob::shape);
    if (!fits) {
      throw ErrorAt(
          (*to)->param, {},
          StrCat("layer \"", from->param.name(), "\" cannot share its parameters: they have other shapes than ",
                 "those of the other net's layer"));
    }
    for (size_t i = 0; i < target.size(); ++i) keys[target[i].name] = from->net_blobs[i].name;
  }
  const bool is_shared = parameters_ == other.parameters_ &&
                         std::ranges::all_of(keys, [](const auto& pair) { return pair.first == pair.second; });
  if (!is_shared) Rebind(other.parameters_, keys);
}

// Moves to another store: under the keys given, and with values of its own for the rest.
void LayerwiseNet::Rebind(std::shared_ptr<SharedParameters> parameters,
                          const std::map<std::string, std::string>& keys) {
  std::map<std::string, std::string> renamed = keys;
  std::map<std::string, std::shared_ptr<Blob>> owned;
  for (const auto& [key, blob] : owned_) {
    ParameterStore& store = parameters->store;
    if (!renamed.contains(key)) {
      std::string fresh = key;
      if (parameters != parameters_) {
        const std::lock_guard lock(parameters->compiling);
        for (int count = 2; store.Has(fresh); ++count) fresh = StrCat(key, "#", count);
        store.Add(fresh, blob->shape());
        store.Set(fresh, blob->values());
        store.FixLayout(fresh, {});
        store.MarkWritten(fresh);
      }
      renamed[key] = fresh;
    }
    owned[renamed[key]] = blob;
    const std::string& name = renamed[key];
    blob->SetData({parameters, store.tensor(name).as<float>().data()}, Blob::Memory::kBound);
  }
  owned_ = std::move(owned);
  parameters_ = std::move(parameters);
  for (const auto& layer : layers_) {
    std::vector<std::string> layer_keys;
    for (size_t i = 0; i < layer->net_blobs.size(); ++i) {
      NetBlob& blob = layer->net_blobs[i];
      blob.name = renamed.at(blob.name);
      (*layer->blobs)[i]->SetData(owned_.at(blob.name)->data(), Blob::Memory::kBound);
      layer_keys.push_back(blob.name);
    }
    if (layer->program) layer->program->Bind(parameters_, std::move(layer_keys));
  }
}

}  // namespace moka

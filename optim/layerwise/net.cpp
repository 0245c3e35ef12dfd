// Building: filter, check as a whole, split, then one layer after the other with its blobs and parameters.
#include "optim/layerwise/net.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "data/records/hdf5_sink.h"
#include "layers/net/layer.h"
#include "layers/net/named_layers.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/layerwise/wiring.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"

namespace moka {
namespace {

std::vector<Shape> ShapesOf(const BlobList& blobs) {
  std::vector<Shape> shapes;
  for (const auto& blob : blobs) shapes.push_back(blob->shape());
  return shapes;
}

// A view into the store that keeps it alive.
std::shared_ptr<float> MemoryOf(const std::shared_ptr<SharedParameters>& parameters, const std::string& key) {
  return {parameters, parameters->store.tensor(key).as<float>().data()};
}

// Writes the bottoms of an HDF5Output layer after each of its passes; the file is ended when the net goes.
std::function<void(int)> RowWriter(const LayerwiseNet::Layer& layer, int index) {
  auto file = std::make_shared<Hdf5Sink>(layer.param, std::filesystem::path());
  return [file, index, bottoms = layer.bottoms](int done) {
    if (done != index) return;
    file->Append(bottoms[0]->values(), bottoms[0]->shape(), bottoms[1]->values(), bottoms[1]->shape());
  };
}

}  // namespace

LayerwiseNet::LayerwiseNet(const NetParameter& param, LayerwiseOptions options)
    : options_(std::move(options)), param_(FilterNet(param, options_.state)), parameters_(options_.parameters) {
  options_.state = param_.state();
  if (parameters_ == nullptr) parameters_ = std::make_shared<SharedParameters>();
  MakeExternals();
  CheckWhole();
  NetParameter wired = param_;
  NameAutomaticTops(wired);
  wired = InsertSplits(wired);
  for (const LayerParameter& layer : wired.layer()) AddLayer(layer);
  std::set<std::string> names;
  for (const auto& [blob, layer] : unread_) names.insert(blobs_.names[static_cast<size_t>(blob)]);
  for (const std::string& name : names) blobs_.outputs.push_back(blob_ids_.at(name));
  Plan();
}

LayerwiseNet::~LayerwiseNet() = default;

void LayerwiseNet::MakeExternals() {
  NameLayers(param_);
  if (!options_.external) return;
  for (const LayerParameter& layer : param_.layer()) {
    if (auto external = options_.external(layer)) externals_[layer.name()] = std::move(external);
  }
}

// Mistakes of the whole net at once, told as for every other program. External layers' shapes are known only when they
// are set up: such a net is checked layer by layer.
void LayerwiseNet::CheckWhole() {
  if (externals_.empty()) {
    BuildNet(param_, OptionsOf());
    return;
  }
  std::vector<Error> errors = UnknownFieldsOf(param_.origin());
  if (!errors.empty()) throw ErrorList(std::move(errors));
}

DataTypes LayerwiseNet::PipelineTypes() const {
  return [this](const LayerParameter& layer) {
    std::unique_ptr<Pipeline>& pipeline = pipelines_[layer.name()];
    if (pipeline == nullptr) {
      PipelineOptions options;
      options.phase = options_.state.phase();
      options.record_checks = options_.record_checks;
      options.seed = options_.seed ^ StableHash(orders_.Of(layer));
      pipeline = OpenPipeline(layer, options);
    }
    return pipeline->types();
  };
}

NetOptions LayerwiseNet::OptionsOf() const { return {.state = options_.state, .data_types = PipelineTypes()}; }

// The blob of top i: the bottom's where the layer works in place, else a new one.
int LayerwiseNet::WriteTop(const LayerParameter& param, int i) {
  const std::string& name = param.top(i);
  if (i < param.bottom_size() && param.bottom(i) == name) return blob_ids_.at(name);
  const int id = static_cast<int>(blobs_.all.size());
  if (!blob_ids_.emplace(name, id).second) {
    throw ErrorAt(param, StrCat("top[", i, "]"),
                  StrCat("layer \"", param.name(), "\": top \"", name, "\" is already there"),
                  "rename it; a layer works in place only on a blob that nobody else reads");
  }
  blobs_.all.push_back(std::make_shared<Blob>());
  blobs_.names.push_back(name);
  blobs_.loss_weights.push_back(0);
  return id;
}

void LayerwiseNet::AddLayer(const LayerParameter& param) {
  auto layer = std::make_unique<Layer>();
  layer->param = param;
  layer->is_split = TraitsOf(param).copies;
  for (const std::string& bottom : param.bottom()) {
    const int id = blob_ids_.at(bottom);
    layer->bottom_ids.push_back(id);
    layer->bottoms.push_back(blobs_.all[static_cast<size_t>(id)]);
    unread_.erase(id);
  }
  for (int i = 0; i < param.top_size(); ++i) {
    const int id = WriteTop(param, i);
    layer->top_ids.push_back(id);
    layer->tops.push_back(blobs_.all[static_cast<size_t>(id)]);
    unread_[id] = static_cast<int>(layers_.size());
    if (TraitsOf(param).data == DataKind::kInput) blobs_.inputs.push_back(id);
  }
  layer->blobs = std::make_shared<BlobList>();
  const auto external = externals_.find(param.name());
  if (external != externals_.end()) layer->external = std::move(external->second);
  if (!layer->is_split && !layer->external) {
    const LayerDef* def = FindLayer(param.type());
    if (def != nullptr && def->equal_counts && param.top_size() != param.bottom_size()) {
      throw ErrorAt(param, "top",
                    StrCat("layer \"", param.name(), "\": ", param.type(), " takes a top for each bottom"));
    }
    layer->program = std::make_unique<LayerProgram>(param, OptionsOf());
  }
  SetUpLayer(*layer);
  if (TraitsOf(param).writes_file && !layer->external) {
    AddHook(Hook::kAfterForward, RowWriter(*layer, static_cast<int>(layers_.size())));
  }
  layers_.push_back(std::move(layer));
}

void LayerwiseNet::SetUpLayer(Layer& layer) {
  layer.loss_weights.assign(layer.tops.size(), 0);
  for (int i = 0; i < layer.param.loss_weight_size() && i < layer.param.top_size(); ++i) {
    layer.loss_weights[static_cast<size_t>(i)] = static_cast<double>(layer.param.loss_weight(i));
  }
  if (layer.external) {
    layer.external->SetUp(layer.bottoms, layer.tops);
    layer.external->Reshape(layer.bottoms, layer.tops);
    layer.blobs = layer.external->blobs();
    AddParameters(layer);
  } else if (layer.program) {
    const LayerProgram::Description& description = layer.program->Build(ShapesOf(layer.bottoms));
    layer.loss_weights = description.loss_weights;
    layer.is_fed = description.is_fed;
    AddParameters(layer);
  }
  FitLayer(layer);
  if (layer.is_fed && IsPipelineLayer(layer.param.type())) {
    PipelineTypes()(layer.param);
    // As in Caffe, constant tops are filled now; what is written into them later stays.
    if (TraitsOf(layer.param).data == DataKind::kFillers) {
      std::vector<Tensor> tops;
      const std::vector<TensorType>& types = pipelines_[layer.param.name()]->types();
      for (size_t i = 0; i < types.size(); ++i) tops.emplace_back(types[i], layer.tops[i]->data().get());
      pipelines_[layer.param.name()]->Next(tops);
    }
  }
  SeedLosses(layer);
}

void LayerwiseNet::SeedLosses(Layer& layer) {
  for (size_t i = 0; i < layer.tops.size(); ++i) {
    if (layer.loss_weights[i] == 0) continue;
    std::ranges::fill(layer.tops[i]->gradient(), static_cast<float>(layer.loss_weights[i]));
    blobs_.loss_weights[static_cast<size_t>(layer.top_ids[i])] = layer.loss_weights[i];
  }
}

void LayerwiseNet::AddParameters(Layer& layer) {
  std::vector<NetBlob> blobs;
  if (layer.program) {
    blobs = layer.program->description().blobs;
  } else {
    for (size_t i = 0; i < layer.blobs->size(); ++i) {
      NetBlob blob;
      blob.name = StrCat(layer.param.name(), "/", i);
      blob.layer = layer.param.name();
      blob.index = static_cast<int>(i);
      blob.shape = (*layer.blobs)[i]->shape();
      if (static_cast<int>(i) < layer.param.param_size()) {
        blob.lr_mult = static_cast<double>(layer.param.param(static_cast<int>(i)).lr_mult());
        blob.decay_mult = static_cast<double>(layer.param.param(static_cast<int>(i)).decay_mult());
      }
      blobs.push_back(std::move(blob));
    }
  }
  std::vector<std::string> keys;
  for (size_t i = 0; i < blobs.size(); ++i) AddParameter(layer, std::move(blobs[i]), i);
  for (const NetBlob& blob : layer.net_blobs) keys.push_back(blob.name);
  // Nets that share the parameters of another find them written.
  if (layer.param.blobs_size() > 0 && options_.parameters == nullptr) {
    NetParameter alone;
    *alone.add_layer() = layer.param;
    SetWrittenBlobs(alone, layer.net_blobs, parameters_->store);
  }
  if (layer.program) layer.program->Bind(parameters_, std::move(keys));
}

void LayerwiseNet::AddParameter(Layer& layer, NetBlob blob, size_t index) {
  const int i = static_cast<int>(index);
  const ParamSpec spec = i < layer.param.param_size() ? layer.param.param(i) : ParamSpec();
  if (!spec.name().empty()) blob.name = spec.name();
  blob.state = kNoId;
  if (std::ranges::find(layer.net_blobs, blob.name, &NetBlob::name) != layer.net_blobs.end()) {
    throw ErrorAt(layer.param, StrCat("param[", i, "]"),
                  StrCat("layer \"", layer.param.name(), "\": two of its own parameters have the name \"", blob.name,
                         "\"; a net that runs layer by layer cannot share them"));
  }
  const auto owner = owned_.find(blob.name);
  if (owner != owned_.end()) {
    blob.shared = true;
    const bool fits = spec.share_mode() == ParamSpec::PERMISSIVE ? owner->second->count() == blob.shape.Count()
                                                                 : owner->second->shape() == blob.shape;
    if (!fits) {
      throw ErrorAt(layer.param, StrCat("param[", i, "]"),
                    StrCat("layer \"", layer.param.name(), "\": shares the parameter \"", blob.name, "\" of shape ",
                           owner->second->shape().ToString(), " while this layer needs ", blob.shape.ToString()));
    }
    auto use = std::make_shared<Blob>(blob.shape, owner->second->data());
    use->SetDiff(owner->second->diff());
    if (layer.external) {
      (*layer.blobs)[index] = std::move(use);
    } else {
      layer.blobs->push_back(std::move(use));
    }
    layer.net_blobs.push_back(std::move(blob));
    return;
  }
  ParameterStore& store = parameters_->store;
  {
    const std::lock_guard lock(parameters_->compiling);
    const bool is_new = !store.Has(blob.name);
    AddBlobs(std::span(&blob, 1), options_.seed, store);
    // Plain for good, and never mirrored: it is read and written in place.
    store.FixLayout(blob.name, {});
    store.MarkWritten(blob.name);
    if (layer.external && is_new) store.Set(blob.name, (*layer.blobs)[index]->values());
  }
  if (layer.external) {
    (*layer.blobs)[index]->SetData(MemoryOf(parameters_, blob.name), Blob::Memory::kBound);
  } else {
    layer.blobs->push_back(std::make_shared<Blob>(blob.shape, MemoryOf(parameters_, blob.name)));
  }
  owned_[blob.name] = (*layer.blobs)[index];
  layer.net_blobs.push_back(std::move(blob));
}

void LayerwiseNet::Plan() {
  std::vector<BackwardFacts> facts;
  std::map<std::string, double> rates;
  for (const auto& layer : layers_) {
    for (NetBlob& blob : layer->net_blobs) {
      // The first use says the rate.
      const auto [rate, is_owner] = rates.emplace(blob.name, blob.lr_mult);
      if (!is_owner) blob.lr_mult = rate->second;
    }
  }
  for (const auto& layer : layers_) {
    BackwardFacts fact{
        .bottoms = layer->bottom_ids, .tops = layer->top_ids, .is_loss = {}, .trains = {}, .propagate_down = {}};
    for (const double weight : layer->loss_weights) fact.is_loss.push_back(static_cast<char>(weight != 0));
    for (const NetBlob& blob : layer->net_blobs) {
      fact.trains.push_back(static_cast<char>(blob.lr_mult != 0 && blob.role != ParameterRole::kStatistic));
    }
    for (const bool down : layer->param.propagate_down()) fact.propagate_down.push_back(static_cast<char>(down));
    facts.push_back(std::move(fact));
  }
  const std::vector<BackwardPlan> plans =
      PlanBackward(facts, static_cast<int>(blobs_.all.size()), param_.force_backward());
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = *layers_[i];
    layer.visits = plans[i].visits;
    layer.wanted_bottoms = plans[i].bottoms;
    layer.wanted_blobs = plans[i].params;
    for (size_t k = 0; k < layer.net_blobs.size(); ++k) {
      if (layer.net_blobs[k].role == ParameterRole::kStatistic) layer.wanted_blobs[k] = 0;
    }
  }
}

std::vector<NetBlob> LayerwiseNet::net_blobs() const {
  std::vector<NetBlob> blobs;
  for (const auto& layer : layers_) blobs.insert(blobs.end(), layer->net_blobs.begin(), layer->net_blobs.end());
  return blobs;
}

const std::shared_ptr<Blob>& LayerwiseNet::parameter(const std::string& key) const {
  const auto it = owned_.find(key);
  Require(it != owned_.end(), "LayerwiseNet::parameter: the net has it");
  return it->second;
}

Pipeline* LayerwiseNet::pipeline(const std::string& layer) const {
  const auto it = pipelines_.find(layer);
  return it == pipelines_.end() ? nullptr : it->second.get();
}

}  // namespace moka

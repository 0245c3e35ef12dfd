// A layer's graph is compiled when its bottoms' shapes are first seen, and again for new ones; the backward program is
// made only if somebody asks for it.
#include "optim/layerwise/layer_program.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "layers/net/catalog.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr std::string_view kInputLayer = "@bottoms";

std::string TopName(size_t i) { return StrCat("top ", i); }
std::string TopDiffName(size_t i) { return StrCat("top diff ", i); }
std::string BottomDiffName(size_t i) { return StrCat("bottom diff ", i); }
std::string BlobDiffName(size_t i) { return StrCat("blob diff ", i); }

Tensor AsTensor(const Shape& shape, float* data) { return {TensorType{DType::kFloat32, shape, {}}, data}; }

void SetKey(const Program& program, int64_t key) {
  if (program.HasInput("random_key")) program.input("random_key").as<int64_t>()[0] = key;
}

}  // namespace

LayerProgram::LayerProgram(LayerParameter param, NetOptions options)
    : param_(std::move(param)), options_(std::move(options)) {
  // Sharing by name is settled by whoever binds the blobs; here each has its own.
  for (ParamSpec& spec : *param_.mutable_param()) spec.clear_name();
  param_.clear_include();
  param_.clear_exclude();
  param_.clear_propagate_down();
}

LayerProgram::~LayerProgram() { DropPrograms(); }

void LayerProgram::DropPrograms() {
  forward_.reset();
  backward_.reset();
  if (kept_.empty()) return;
  const std::lock_guard lock(parameters_->compiling);
  parameters_->store.Remove(kept_);
  parameters_->store.Remove(kept_before_);
  kept_.clear();
  kept_before_.clear();
  kept_values_.clear();
}

int LayerProgram::FirstUse(int bottom) const {
  int first = 0;
  while (param_.bottom(first) != param_.bottom(bottom)) ++first;
  return first;
}

// The small net: an Input layer for the bottoms, then the layer.
BuiltNet LayerProgram::BuildGraph() {
  NetParameter net;
  net.set_name(param_.name());
  if (param_.bottom_size() > 0) {
    LayerParameter* input = net.add_layer();
    input->set_name(std::string(kInputLayer));
    input->set_type("Input");
    for (int i = 0; i < param_.bottom_size(); ++i) {
      if (FirstUse(i) != i) continue;
      input->add_top(param_.bottom(i));
      BlobShape* shape = input->mutable_input_param()->add_shape();
      for (const int64_t dim : bottoms_[static_cast<size_t>(i)].dims()) shape->add_dim(dim);
    }
  }
  *net.add_layer() = param_;
  NetOptions options = options_;
  options.tells_fields = !std::exchange(has_told_, true);  // not again on other shapes
  return BuildNet(net, options);
}

const LayerProgram::Description& LayerProgram::Build(const std::vector<Shape>& bottoms) {
  Require(bottoms.size() == static_cast<size_t>(param_.bottom_size()), "LayerProgram::Build: a shape a bottom");
  for (size_t i = 0; i < bottoms.size(); ++i) {
    if (std::ranges::all_of(bottoms[i].dims(), [](int64_t dim) { return dim >= 1; })) continue;
    const int index = static_cast<int>(i);
    throw ErrorAt(param_, StrCat("bottom[", i, "]"),
                  StrCat("layer \"", param_.name(), "\": bottom \"", param_.bottom(index), "\" has the shape ",
                         bottoms[i].ToString(), "; every dimension must be at least 1"));
  }
  bottoms_ = bottoms;
  DropPrograms();
  const BuiltNet net = BuildGraph();
  description_ = {};
  for (const std::string& top : param_.top()) {
    description_.tops.push_back(net.graph.shape(net.tops.at(top)));
    const auto output = std::ranges::find(net.outputs, top, &BuiltNet::Output::name);
    description_.loss_weights.push_back(output == net.outputs.end() ? 0 : output->loss_weight);
  }
  description_.blobs = net.blobs;
  for (const DataLayer& data : net.data) {
    description_.is_fed = description_.is_fed || data.param.name() == param_.name();
  }
  return description_;
}

void LayerProgram::Bind(std::shared_ptr<SharedParameters> parameters, std::vector<std::string> keys) {
  DropPrograms();
  parameters_ = std::move(parameters);
  keys_ = std::move(keys);
}

void LayerProgram::NameStates(BuiltNet& net) const {
  for (size_t i = 0; i < net.blobs.size(); ++i) net.graph.SetName(net.blobs[i].state, keys_.at(i));
}

void LayerProgram::AddKept(const BuiltNet& net) {
  if (!kept_.empty()) return;
  static std::atomic<int64_t> objects = 0;
  const int64_t object = objects++;
  const std::lock_guard lock(parameters_->compiling);
  ParameterStore& store = parameters_->store;
  for (const KeptState& kept : net.kept) {
    kept_.push_back(StrCat(kept.name, "@layer", object));
    kept_before_.push_back(StrCat(kept_.back(), " before"));
    for (const std::string& name : {kept_.back(), kept_before_.back()}) {
      store.Add(name, kept.shape);
      store.FixLayout(name, {});
      store.MarkWritten(name);
    }
    kept_values_.emplace_back(store.tensor(kept_.back()), store.tensor(kept_before_.back()));
  }
}

void LayerProgram::CompileForward() {
  BuiltNet net = BuildGraph();
  NameStates(net);
  AddKept(net);
  for (size_t i = 0; i < kept_.size(); ++i) net.graph.SetName(net.kept[i].state, kept_[i]);
  for (int i = 0; i < param_.top_size(); ++i) {
    net.graph.AddOutput(TopName(static_cast<size_t>(i)), net.tops.at(param_.top(i)));
  }
  CompileOptions options;
  options.name = param_.name();
  const std::lock_guard lock(parameters_->compiling);
  forward_ = Compile(std::move(net.graph), parameters_->store, options);
}

void LayerProgram::Forward(std::span<const std::shared_ptr<Blob>> bottoms, std::span<const std::shared_ptr<Blob>> tops,
                           int64_t random_key) {
  if (!forward_) CompileForward();
  for (size_t i = 0; i < bottoms.size(); ++i) {
    const std::string& name = param_.bottom(static_cast<int>(i));
    if (!forward_->HasInput(name)) continue;
    CopyTensor(AsTensor(bottoms_[i], bottoms[i]->data().get()), forward_->input(name));
  }
  random_key_ = random_key;
  SetKey(*forward_, random_key);
  for (const auto& [kept, before] : kept_values_) CopyTensor(kept, before);
  forward_->Run();
  for (size_t i = 0; i < tops.size(); ++i) {
    CopyTensor(forward_->output(TopName(i)), AsTensor(description_.tops[i], tops[i]->data().get()));
  }
}

// The layer again, then the gradient of sum(top * top's diff): by linearity the bottoms' diffs.
void LayerProgram::CompileBackward(const BackwardWish& wish) {
  BuiltNet net = BuildGraph();
  NameStates(net);
  AddKept(net);
  for (size_t i = 0; i < kept_.size(); ++i) net.graph.SetName(net.kept[i].state, kept_before_[i]);
  Graph& graph = net.graph;
  const GraphBuilder b(graph, {param_.name(), {}, "autodiff", kNoId});
  std::vector<ValueId> sums;
  std::string text;
  for (int i = 0; i < param_.top_size(); ++i) {
    const ValueId top = net.tops.at(param_.top(i));
    if (graph.type(top).dtype != DType::kFloat32) continue;
    const ValueId diff = graph.AddInput(TopDiffName(static_cast<size_t>(i)), graph.type(top));
    text += StrCat(sums.empty() ? "x" : "+x", sums.size());
    sums.push_back(b.SumAll(b.Pointwise("x0*x1", {top, diff})));
  }
  std::vector<ValueId> wanted;
  for (int i = 0; i < param_.bottom_size(); ++i) {
    if (wish.bottoms[static_cast<size_t>(i)] == 0) continue;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (value.kind == ValueKind::kInput && value.name == param_.bottom(i)) wanted.push_back(id);
    }
  }
  for (size_t k = 0; k < net.blobs.size(); ++k) {
    if (wish.blobs[k] != 0) wanted.push_back(net.blobs[k].state);
  }
  has_bottom_gradient_.assign(wish.bottoms.size(), 0);
  has_blob_gradient_.assign(wish.blobs.size(), 0);
  backward_wish_ = wish;
  graph.assignments().clear();  // running statistics are the forward pass's business
  std::vector<ValueId> gradients(wanted.size(), kNoId);
  if (!sums.empty()) gradients = Differentiate(graph, sums.size() == 1 ? sums[0] : b.Pointwise(text, sums), wanted);
  size_t next = 0;
  for (size_t i = 0; i < wish.bottoms.size(); ++i) {
    if (wish.bottoms[i] == 0) continue;
    const ValueId gradient = gradients[next++];
    if (gradient == kNoId) continue;
    has_bottom_gradient_[i] = 1;
    graph.AddOutput(BottomDiffName(i), gradient);
  }
  for (size_t k = 0; k < wish.blobs.size(); ++k) {
    if (wish.blobs[k] == 0) continue;
    const ValueId gradient = gradients[next++];
    if (gradient == kNoId) continue;
    has_blob_gradient_[k] = 1;
    graph.AddOutput(BlobDiffName(k), gradient);
  }
  CompileOptions options;
  options.name = StrCat(param_.name(), " backward");
  const std::lock_guard lock(parameters_->compiling);
  backward_ = Compile(std::move(graph), parameters_->store, options);
}

void LayerProgram::Backward(std::span<const std::shared_ptr<Blob>> tops, std::span<const std::shared_ptr<Blob>> bottoms,
                            std::span<const std::shared_ptr<Blob>> blobs, const BackwardWish& wish) {
  if (!backward_ || wish.bottoms != backward_wish_.bottoms || wish.blobs != backward_wish_.blobs) CompileBackward(wish);
  for (size_t i = 0; i < bottoms.size(); ++i) {
    const std::string& name = param_.bottom(static_cast<int>(i));
    if (!backward_->HasInput(name)) continue;
    const bool in_place = std::ranges::find(tops, bottoms[i]) != tops.end();
    const bool is_kept = in_place && forward_ && forward_->HasInput(name);
    CopyTensor(is_kept ? forward_->input(name) : AsTensor(bottoms_[i], bottoms[i]->data().get()),
               backward_->input(name));
  }
  for (size_t i = 0; i < tops.size(); ++i) {
    if (!backward_->HasInput(TopDiffName(i))) continue;
    CopyTensor(AsTensor(description_.tops[i], tops[i]->diff().get()), backward_->input(TopDiffName(i)));
  }
  SetKey(*backward_, random_key_);
  backward_->Run();
  for (size_t i = 0; i < bottoms.size(); ++i) {
    if (wish.bottoms[i] == 0) continue;
    if (has_bottom_gradient_[i] == 0) {
      std::ranges::fill(bottoms[i]->gradient(), 0.0F);
    } else {
      CopyTensor(backward_->output(BottomDiffName(i)), AsTensor(bottoms_[i], bottoms[i]->diff().get()));
    }
  }
  for (size_t k = 0; k < blobs.size(); ++k) {
    if (wish.blobs[k] == 0 || has_blob_gradient_[k] == 0) continue;
    const Tensor gradient = backward_->output(BlobDiffName(k));
    const std::span<const float> from = gradient.as<const float>();
    const std::span<float> to = blobs[k]->gradient();
    Require(from.size() == to.size(), "a gradient has its blob's count");
    for (size_t j = 0; j < from.size(); ++j) to[j] += from[j];
  }
}

}  // namespace moka

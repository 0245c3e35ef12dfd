#include "optim/test_net.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "optim/net_weights.h"
#include "optim/output_files.h"
#include "optim/precision.h"
#include "optim/update.h"

namespace moka {

TestNet::TestNet(const NetParameter& param, const TestOptions& options, ParameterStore& store)
    : feed_(options.name, options.data) {
  NetOptions net_options;
  net_options.state = param.state();
  net_options.state.set_phase(TEST);
  net_options.data_types = feed_.types();
  BuiltNet net = BuildNet(param, net_options);
  param_ = net.param;
  for (LayerParameter& layer : *param_.mutable_layer()) {  // from here on the name says where the file is
    if (!layer.has_hdf5_output_param()) continue;
    std::string* name = layer.mutable_hdf5_output_param()->mutable_file_name();
    *name = (options.data.base_folder / *name).string();
    if (options.data.world > 1) *name += StrCat(".rank", options.data.rank);  // each rank tests a part of the rows
  }
  blobs_ = net.blobs;
  outputs_ = net.outputs;
  AddBlobs(blobs_, options.seed, store);
  AddKept(net, options.name, store);
  for (const NetBlob& blob : blobs_) {
    const std::string mean = SlotName(blob.name, kEmaSlot);
    if (options.use_means && !blob.shared && store.Has(mean)) net.graph.SetName(blob.state, mean);
  }
  for (const BuiltNet::Output& output : outputs_) net.graph.AddOutput(output.name, output.value);
  AddEvaluators({.detections = options.evaluation == Evaluation::kDetection, .rule = options.precision_rule});
  for (const std::string& blob : options.watched) {
    const auto top = net.tops.find(blob);
    if (top == net.tops.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : net.tops) names.push_back(name);
      throw Error(ErrorKind::kUsage, {}, StrCat("the net has no blob \"", Printable(blob), "\""),
                  DidYouMean(blob, names));
    }
    net.graph.AddOutput(WatchName(blob), top->second);
  }
  AddFileOutputs(net);
  CompileOptions compile = options.compile;
  compile.name = options.name;
  compile.inference = true;
  compile.keep32_layers = LayersInFloat32(param_);
  const std::vector<DataLayer> layers = net.data;
  program_ = Compile(std::move(net.graph), store, compile);
  feed_.Bind(*program_, layers);
  if (program_->HasInput("random_key")) random_key_ = program_->input("random_key");
}

std::vector<OutputValue> TestNet::Run(int64_t batches, const std::function<bool(int64_t)>& on_batch) {
  program_->RefreshConstants();
  std::vector<OutputValue> means;
  OutputFiles files(param_, {});
  for (auto& [name, evaluator] : evaluators_) evaluator->Reset();
  for (int64_t i = 0; i < batches; ++i) {
    if (random_key_.raw() != nullptr) random_key_.as<int64_t>()[0] = i;
    feed_.Next();
    program_->Run();
    files.Append(*program_);
    AddBatch(means);
    if (on_batch && !on_batch(i + 1)) {
      files.Discard();
      return {};
    }
  }
  files.Finish();
  loss_ = 0;
  std::vector<OutputValue> results;
  for (OutputValue& mean : means) {
    if (const auto evaluator = evaluators_.find(mean.name); evaluator != evaluators_.end()) {
      for (OutputValue& value : evaluator->second->Values(mean.name)) results.push_back(std::move(value));
      continue;
    }
    mean.value /= static_cast<double>(batches);
    loss_ += mean.loss_weight * mean.value;
    results.push_back(std::move(mean));
  }
  return results;
}

void TestNet::AddEvaluators(const EvaluatorOptions& options) {
  for (const LayerParameter& layer : param_.layer()) {
    if (layer.top_size() == 0 || !IsOutput(layer.top(0))) continue;
    if (auto evaluator = MakeEvaluator(layer, options)) evaluators_[layer.top(0)] = std::move(evaluator);
  }
}

bool TestNet::IsOutput(const std::string& name) const {
  return std::ranges::any_of(outputs_, [&](const BuiltNet::Output& output) { return output.name == name; });
}

void TestNet::AddBatch(std::vector<OutputValue>& sums) {
  std::vector<OutputValue> values;
  for (const BuiltNet::Output& output : outputs_) {
    const auto evaluator = evaluators_.find(output.name);
    if (evaluator == evaluators_.end()) {
      for (OutputValue& value : ReadOutputs(*program_, {output})) values.push_back(std::move(value));
      continue;
    }
    evaluator->second->Add(program_->output(output.name).as<float>());
    values.push_back({output.name, 0, output.loss_weight, {}});
  }
  if (sums.empty()) {
    sums = std::move(values);
    return;
  }
  for (size_t k = 0; k < values.size(); ++k) sums[k].value += values[k].value;
}

std::vector<std::string> TestNet::FirstTops(std::string_view type) const {
  std::vector<std::string> tops;
  for (const LayerParameter& layer : param_.layer()) {
    if (layer.type() == type && layer.top_size() > 0) tops.push_back(layer.top(0));
  }
  return tops;
}

std::vector<std::string> TestNet::DetectionOutputs() const {
  std::vector<std::string> names = FirstTops("DetectionEvaluate");
  std::erase_if(names, [&](const std::string& name) { return !IsOutput(name); });
  return names;
}

std::vector<std::string> TestNet::EvaluatedOutputs() const {
  std::vector<std::string> names;
  for (const LayerParameter& layer : param_.layer()) {
    if (layer.top_size() > 0 && evaluators_.contains(layer.top(0))) names.push_back(layer.top(0));
  }
  return names;
}

std::vector<std::string> TestNet::MetricNames() const {
  std::vector<std::string> names;
  for (const BuiltNet::Output& output : outputs_) {
    const auto evaluator = evaluators_.find(output.name);
    if (evaluator == evaluators_.end()) {
      names.push_back(output.name);
      continue;
    }
    for (const OutputValue& value : evaluator->second->Values(output.name)) names.push_back(value.name);
  }
  return names;
}

}  // namespace moka

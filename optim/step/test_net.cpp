// Batches that are fewer at the end get a program of their own; shares are weighed by their counts, so that the mean is
// over labels and not over batches.
#include "optim/step/test_net.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/slow_phase.h"
#include "graph/op.h"
#include "layers/net/layer.h"
#include "layers/types/loss/accuracy_counts.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/optimizers/update.h"
#include "optim/precision.h"
#include "optim/ranks/batch_policy.h"
#include "optim/step/output_files.h"

namespace moka {
namespace {

std::vector<std::string> FirstTops(const NetParameter& net, bool LayerTraits::*trait) {
  std::vector<std::string> tops;
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).*trait && layer.top_size() > 0) tops.push_back(layer.top(0));
  }
  return tops;
}

}  // namespace

bool GivesShares(const NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), [&](const LayerParameter& layer) {
    return TraitsOf(layer).is_accuracy && (layer.top_size() > 1 || IgnoresLabels(net, layer.accuracy_param()));
  });
}

std::vector<std::string> AccuracyTops(const NetParameter& net) { return FirstTops(net, &LayerTraits::is_accuracy); }

TestNet::TestNet(const NetParameter& param, const TestOptions& options, ParameterStore& store)
    : given_(param),
      options_(options),
      store_(store),
      feed_(options.name, InPhaseOf(param, TEST, options.data)),
      signs_(param) {
  const SlowPhase phase("building the test net");
  BuiltNet net = Build(param, feed_.types(), true);
  param_ = net.param;
  for (LayerParameter& layer : *param_.mutable_layer()) {  // each rank tests a part of the rows
    if (!layer.has_hdf5_output_param() || options.data.world == 1) continue;
    *layer.mutable_hdf5_output_param()->mutable_file_name() += StrCat(".rank", options.data.rank);
  }
  SetOutputFolder(options.data.base_folder);
  blobs_ = net.blobs;
  outputs_ = net.outputs;
  has_kept_ = !net.kept.empty();
  AddEvaluators({.detections = options.evaluation == Evaluation::kDetection, .rule = options.precision_rule});
  whole_.data = net.data;
  whole_.batch = MakeProgram(net);
  feed_.Bind(*whole_.batch, whole_.data);
  AddBuckets();
}

BuiltNet TestNet::Build(const NetParameter& param, const DataTypes& types, bool tells_fields) {
  NetOptions net_options;
  net_options.state = param.state();
  if (!net_options.state.has_phase()) net_options.state.set_phase(TEST);
  net_options.data_types = types;
  net_options.tells_fields = tells_fields;
  return BuildNet(param, net_options);
}

std::unique_ptr<Program> TestNet::MakeProgram(BuiltNet& net) {
  AddBlobs(net.blobs, options_.seed, store_);
  AddKept(net, options_.name, store_);
  for (const NetBlob& blob : net.blobs) {
    const std::string mean = SlotName(blob.name, kEmaSlot);
    if (options_.use_means && !blob.shared && store_.Has(mean)) net.graph.SetName(blob.state, mean);
  }
  for (const BuiltNet::Output& output : net.outputs) net.graph.AddOutput(output.name, output.value);
  for (const auto& [blob, place] : options_.watched) {
    const auto top = net.tops.find(blob);
    if (top == net.tops.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : net.tops) names.push_back(name);
      throw Error(place.file.empty() ? ErrorKind::kUsage : ErrorKind::kConfig, place,
                  StrCat("the net has no blob \"", Printable(blob), "\""), DidYouMean(blob, names));
    }
    net.graph.AddOutput(WatchName(blob), top->second);
  }
  AddCounts(net);
  AddFileOutputs(net);
  CompileOptions compile = options_.compile;
  compile.name = options_.name;
  compile.inference = true;
  compile.arena = arena_;
  compile.keep32_layers = LayersInFloat32(param_);
  return Compile(std::move(net.graph), store_, compile);
}

void TestNet::AddBuckets() {
  if (!options_.has_buckets) return;
  const auto is_number = [&](const BuiltNet::Output& output) {
    return whole_.batch->output(output.name).shape().Count() == 1;
  };
  const auto is_shuffled = [](const DataLayer& layer) { return layer.param.data_param().shuffle(); };
  const auto writes = [](const LayerParameter& layer) { return layer.has_hdf5_output_param(); };
  const bool can_shorten = !has_kept_ && options_.watched.empty() && evaluators_.empty() &&
                           whole_.batch->stream() == nullptr && std::ranges::all_of(outputs_, is_number) &&
                           std::ranges::none_of(whole_.data, is_shuffled) &&
                           std::ranges::none_of(param_.layer(), writes);
  buckets_.Add(given_, whole_, can_shorten, [&](const NetParameter& text, const DataTypes& types) {
    BuiltNet net = Build(text, types, false);  // the whole net has told its fields
    StepProgram made;
    made.data = net.data;
    made.batch = MakeProgram(net);
    return made;
  });
}

void TestNet::SetOutputFolder(std::filesystem::path folder) {
  output_folder_ = std::move(folder);
  const OutputFiles checked(param_, output_folder_);
}

int64_t TestNet::Rest(int64_t batches) const {
  const int64_t records = feed_.epoch_size();
  const int64_t before = feed_.batch_size() * (batches - 1);
  return records > before && records < before + feed_.batch_size() ? records - before : 0;
}

TestNet* TestNet::TailOf(int64_t rest) {
  if (rest == tail_records_) return tail_.get();
  tail_records_ = rest;
  tail_.reset();
  try {
    if (has_kept_) throw Error(ErrorKind::kConfig, "it keeps states from batch to batch");
    TestOptions options = options_;
    options.data.rank = 0;
    options.data.world = 1;
    options.has_buckets = false;  // there is one such batch
    tail_ = std::make_unique<TestNet>(WithBatch(given_, rest), options, store_);
    for (const BuiltNet::Output& output : outputs_) {
      const bool is_row = evaluators_.contains(output.name);
      const Tensor whole = whole_.batch->output(output.name);
      if (is_row || tail_->whole_.batch->output(output.name).type().shape == whole.type().shape) continue;
      throw Error(ErrorKind::kConfig, StrCat("output \"", output.name, "\" is as long as its batch"));
    }
    if (tail_->feed_.batch_size() != rest) throw Error(ErrorKind::kConfig, "the layers that read data have no batch");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;  // a file that is gone, say, is no matter of the batch
    tail_.reset();
    if (options_.data.rank > 0) return nullptr;
    LogWarning(StrCat(options_.name, ": ", feed_.epoch_size(), " records are no multiple of the batch of ",
                      feed_.batch_size(), ", and the net cannot take the last ", rest, " alone (", error.text(),
                      "): the first ", feed_.batch_size() - rest, " count twice"));
  }
  return tail_.get();
}

std::vector<OutputValue> TestNet::Run(int64_t batches, const std::function<bool(int64_t)>& on_batch) {
  whole_.batch->RefreshConstants();
  for (StepProgram& shorter : buckets_.shorter()) shorter.batch->RefreshConstants();
  std::vector<BatchSum> sums;
  OutputFiles files(param_, output_folder_);
  for (auto& [name, evaluator] : evaluators_) evaluator->Reset();
  feed_.Seek({});
  const int64_t of_all = batches * ranks();
  const int64_t rest = Rest(of_all);
  // Ranks take batches by turns, so the last has the last one; whether there is such a net all know alike.
  TestNet* const smaller = rest > 0 ? TailOf(rest) : nullptr;
  TestNet* const tail = options_.data.rank == ranks() - 1 ? smaller : nullptr;
  if (tail != nullptr) {
    tail->whole_.batch->RefreshConstants();
    std::map<std::string, int64_t> positions;
    tail->feed_.SavePositions(positions);
    for (auto& [layer, position] : positions) position = feed_.batch_size() * (of_all - 1);
    tail->feed_.Seek(positions);
  }
  const double part = static_cast<double>(rest) / static_cast<double>(std::max<int64_t>(feed_.batch_size(), 1));
  for (int64_t i = 0; i < batches; ++i) {
    ran_tail_ = tail != nullptr && i + 1 == batches;
    TestNet& net = ran_tail_ ? *tail : *this;
    net.RunNext(i * ranks() + options_.data.rank);
    files.Append(*net.ran_->batch);
    AddBatch(net, ran_tail_ ? part : 1, sums);
    if (on_batch && !on_batch(i + 1)) {
      files.Discard();
      feed_.Seek({});
      return {};
    }
  }
  files.Finish();
  feed_.Seek({});  // what the next test begins with is read while the net trains
  loss_ = 0;
  std::vector<OutputValue> results;
  // Batches of all ranks, the last by what it holds; with a rank's share of them the mean of ranks is that of all.
  const double counted =
      (static_cast<double>(of_all) - (smaller != nullptr ? 1 - part : 0)) / static_cast<double>(ranks());
  for (auto& [mean, labels] : sums) {
    if (const auto evaluator = evaluators_.find(mean.name); evaluator != evaluators_.end()) {
      for (OutputValue& value : evaluator->second->Values(mean.name)) results.push_back(std::move(value));
      continue;
    }
    const double divisor = labels.value_or(counted);
    mean.value = divisor > 0 ? mean.value / divisor : 0;
    loss_ += mean.loss_weight * mean.value;
    results.push_back(std::move(mean));
  }
  if (options_.data.rank == 0) signs_.Look(results);
  return results;
}

void TestNet::RunNext(int64_t key) {
  feed_.Next();
  ran_ = &buckets_.ProgramOf(whole_);
  if (ran_->batch->HasInput("random_key")) ran_->batch->input("random_key").as<int64_t>()[0] = key;
  ran_->batch->Run();
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

void TestNet::AddCounts(BuiltNet& net) {
  for (const LayerParameter& layer : param_.layer()) {
    if (!TraitsOf(layer).is_accuracy) continue;
    for (const std::string& top : layer.top()) {
      if (IsOutput(top)) AddCount(net, top);
    }
  }
}

void TestNet::AddCount(BuiltNet& net, const std::string& top) {
  const Value& share = net.graph.value(net.tops.at(top));
  const int index = share.output_index;
  if (share.producer == kNoId) return;
  const Node node = net.graph.node(share.producer);
  if (node.op->name != "accuracy" || (index == 0 && !node.attributes.Bool("has_ignore"))) return;
  NodeOrigin origin = node.origin;
  origin.sequence = kNoId;
  const GraphBuilder b(net.graph, origin);
  const ValueId label = node.inputs[1];
  net.graph.AddOutput(CountName(top), index == 0
                                          ? CountedLabels(b, label, node.attributes)
                                          : CountedLabelsOfClasses(b, label, b.shape(node.inputs[0]), node.attributes));
  shares_.insert(top);
}

std::vector<TestNet::BatchSum> TestNet::ValuesOf(const TestNet& net, const BuiltNet::Output& output) {
  const auto evaluator = evaluators_.find(output.name);
  if (evaluator != evaluators_.end()) {
    evaluator->second->Add(net.ran_->batch->output(output.name).as<float>());
    return {{.sum = {output.name, 0, output.loss_weight, {}}}};
  }
  std::vector<BatchSum> values;
  for (OutputValue& value : ReadOutputs(*net.ran_->batch, {output})) values.push_back({.sum = std::move(value)});
  if (!shares_.contains(output.name)) return values;
  const Tensor labels = net.ran_->batch->output(CountName(output.name));
  for (size_t k = 0; k < values.size(); ++k) {
    const double counted = labels.as<const float>()[k];
    values[k].labels = counted;
    values[k].sum.value = std::round(values[k].sum.value * counted);
  }
  return values;
}

void TestNet::AddBatch(const TestNet& net, double weight, std::vector<BatchSum>& sums) {
  std::vector<BatchSum> values;
  for (const BuiltNet::Output& output : outputs_) {
    for (BatchSum& value : ValuesOf(net, output)) values.push_back(std::move(value));
  }
  for (BatchSum& value : values) value.sum.value *= value.labels ? 1 : weight;
  if (sums.empty()) {
    sums = std::move(values);
    return;
  }
  for (size_t k = 0; k < values.size(); ++k) {
    sums[k].sum.value += values[k].sum.value;
    if (values[k].labels) *sums[k].labels += *values[k].labels;
  }
}

std::vector<std::string> TestNet::DetectionOutputs() const {
  std::vector<std::string> names = FirstTops(param_, &LayerTraits::gives_detections);
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

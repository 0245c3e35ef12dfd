// The net's own results come from TestNet, so that they are those of `moka test`; a reader looks on after each batch.
#include "tools/report/test_pass.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "core/trace.h"
#include "layers/net/layer.h"
#include "optim/run/report.h"
#include "optim/step/test_net.h"
#include "tools/measure/calibration.h"
#include "tools/report/blob_readers.h"

namespace moka {
namespace {

// The layers of a net but those that write files.
NetParameter WithoutFiles(const NetParameter& net) {
  NetParameter kept = net;
  kept.clear_layer();
  for (const LayerParameter& layer : net.layer()) {
    if (!TraitsOf(layer).writes_file) *kept.add_layer() = layer;
  }
  return kept;
}

ReadBlobs ReadBlobsOf(const NetParameter& net, ModelCard::Task task) {
  ReadBlobs read;
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).gives_detections && layer.top_size() > 0) read.detections = layer.top(0);
  }
  const bool has_classes = task == ModelCard::CLASSIFY || task == ModelCard::SEGMENT || task == ModelCard::ANSWER;
  if (has_classes && read.detections.empty()) read.scores = ScoredBlobsOf(net);
  if (!read.scores) return read;
  read.data = DataLayerOf(net);
  return read;
}

int64_t BatchesOf(const TestNet& net, const PassOptions& options, std::vector<std::string>& notes) {
  const int64_t records = net.feed().epoch_size();
  const int64_t batch = std::max<int64_t>(1, net.feed().batch_size());
  const int64_t once = BatchesOfData(net.feed());
  const int64_t batches = options.batches > 0 && (records == 0 || options.batches < once) ? options.batches : once;
  const int64_t most = std::max<int64_t>(1, options.most_samples / batch);
  if (batches <= most) return batches;
  notes.push_back(StrCat("A report is of ", options.most_samples, " samples at most: its numbers are those of ",
                         "the first ", most * batch, " of ", records > 0 ? records : batches * batch,
                         "; moka test takes all of them."));
  return most;
}

// The classes that an evaluator gives values of, where nothing else has said what is known of them.
void SetEvaluated(const std::vector<OutputValue>& results, ReportContent& content) {
  if (!content.classes.empty()) return;
  const auto evaluated = std::ranges::find_if(results, [](const OutputValue& value) { return !value.classes.empty(); });
  if (evaluated == results.end()) return;
  for (const auto& [label, value] : evaluated->classes) {
    content.classes.push_back({.number = label});
    content.classes.back().average_precision = value;
  }
  if (content.task.empty()) content.task = "detection";
}

}  // namespace

bool HasTestPass(const NetParameter& param, ModelCard::Task task) {
  if (DataLayerOf(param) == nullptr) return false;
  if (!ReadBlobsOf(param, task).blobs().empty()) return true;
  return std::ranges::any_of(param.layer(), [](const LayerParameter& layer) { return HasEvaluator(layer.type()); });
}

bool AddTestPass(const NetParameter& param, const std::string& weights, const PassOptions& options,
                 ReportContent& content) {
  const NetParameter tested = WithoutFiles(param);
  const ReadBlobs read = ReadBlobsOf(tested, options.task);
  TestOptions test;
  test.compile = options.compile;
  test.compile.recompute = false;
  test.evaluation = Evaluation::kDetection;
  test.precision_rule = options.rule;
  for (const std::string& blob : read.blobs()) test.watched.push_back({.name = blob});
  ParameterStore store(test.compile.device);
  TestNet net(tested, test, store);
  LoadWeightsFor(test.compile, weights, net.blobs(), store);
  std::vector<std::string> notes;
  const int64_t batches = BatchesOf(net, options, notes);
  const int64_t batch = std::max<int64_t>(1, net.feed().batch_size());
  const int64_t records = net.feed().epoch_size();
  const int64_t samples = records > 0 ? std::min(records, batches * batch) : batches * batch;
  const std::unique_ptr<BlobReader> reader = MakeBlobReader(read, net, samples);
  const int64_t begin = NowMicros();
  bool goes_on = true;
  const std::vector<OutputValue> results = net.Run(batches, [&](int64_t done) {
    // Records that come a second time, as the last batch is full whatever is left, count once.
    const int64_t first = (done - 1) * batch;
    if (reader) reader->Read(net, first, std::min(batch, samples - first));
    goes_on = !options.on_batch || options.on_batch(done, batches);
    return goes_on;
  });
  if (!goes_on) return false;
  content.notes.insert(content.notes.end(), notes.begin(), notes.end());
  content.pass = {.samples = samples, .batch = batch};
  content.pass->seconds = static_cast<double>(NowMicros() - begin) * 1e-6;
  for (const auto& [name, value] : MetricsOf(results)) content.metrics.push_back({.name = name, .value = value});
  if (std::ranges::count_if(results, [](const OutputValue& value) { return value.loss_weight != 0; }) > 1) {
    content.metrics.push_back({.name = "loss in all", .value = net.loss()});
  }
  if (reader) reader->Finish(net, results, content);
  SetEvaluated(results, content);
  return true;
}

}  // namespace moka

// Fills weights and inputs by seeded generators, runs once, and keeps of each blob its mean, its deviation and a
// projection on random numbers, which sees elements in wrong places.
#include "tools/zoo/net_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "graph/op.h"
#include "graph/program.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/precision.h"
#include "tools/nets/deploy_net.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

constexpr uint64_t kZooSeed = 1;
constexpr double kSummaryTolerance = 1e-3;  // of the deviation: kernels of other machines round otherwise

bool IsHeavy(const std::string& op) {
  return op == "matmul" || op == "lstm" || op == "gru" || op.starts_with("convolution");
}

// The values for a data layer's top: by name, else the first of that size which is free.
const BlobValues& InputFor(const std::string& top, const Shape& shape, const Blobs& inputs,
                           std::set<std::string>& taken) {
  if (const auto named = inputs.find(top); named != inputs.end()) {
    taken.insert(top);
    if (named->second.shape.Count() == shape.Count()) return named->second;
  }
  for (const auto& [name, blob] : inputs) {
    if (blob.shape.Count() == shape.Count() && taken.insert(name).second) return blob;
  }
  std::vector<std::string> there;
  for (const auto& [name, blob] : inputs) there.push_back(StrCat(name, " ", blob.shape.ToString()));
  throw Error(ErrorKind::kConfig, {},
              StrCat("input \"", top, "\" ", shape.ToString(), " is none of the test net's data: ", Join(there, ", ")),
              "give its shape as check.top of the card, or say in check.skip why nothing fits");
}

// The last layer that writes a blob; null if none does.
const LayerParameter* MakerOf(const NetParameter& net, const std::string& blob) {
  const LayerParameter* maker = nullptr;
  for (const LayerParameter& layer : net.layer()) {
    if (std::ranges::find(layer.top(), blob) != layer.top().end()) maker = &layer;
  }
  return maker;
}

bool IsInput(const BuiltNet& net, const std::string& blob) {
  return std::ranges::any_of(
      net.data, [&](const DataLayer& data) { return std::ranges::find(data.tops, blob) != data.tops.end(); });
}

}  // namespace

NetCounts CountsOf(const BuiltNet& net) {
  NetCounts counts;
  for (const NetBlob& blob : net.blobs) {
    if (blob.shared) continue;
    (blob.role == ParameterRole::kStatistic ? counts.statistics : counts.parameters) += blob.shape.Count();
  }
  int64_t flops = 0;
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    if (!IsHeavy(node.op->name)) continue;
    flops += node.op->flops(node.attributes, net.graph.InputTypes(node), net.graph.OutputTypes(node));
  }
  counts.macs = flops / 2;
  return counts;
}

BuiltNet BuildAsIs(const NetParameter& net) {
  NetOptions options;
  options.state = net.state();
  options.data_types = GuessDataTypes();
  return BuildNet(net, options);
}

NetParameter DeployedNet(const ZooEntry& entry, const NetParameter& made_test) {
  for (const LayerParameter& layer : made_test.layer()) {
    if (!IsPipelineLayer(layer.type()) || layer.top_size() == 0) continue;
    const std::vector<TensorType> types = OpenPipeline(layer, {.phase = TEST})->types();
    return DeployNet(ReadDeployed(entry), types[0].shape);
  }
  return ReadDeployed(entry);  // a generator, whose input is drawn
}

void FillStore(const BuiltNet& net, ParameterStore& store) {
  std::vector<std::string> statistics;
  for (const NetBlob& blob : net.blobs) {
    if (blob.role == ParameterRole::kStatistic && !store.Has(blob.name)) statistics.push_back(blob.name);
  }
  AddBlobs(net.blobs, kZooSeed, store);
  for (const std::string& name : statistics)
    store.Set(name, std::vector<float>(static_cast<size_t>(store.type(name).shape.Count()), 1.0F));
}

Blobs RunOnce(BuiltNet net, const Blobs& inputs, const std::vector<std::string>& wanted, ParameterStore& store) {
  AddKept(net, "zoo", store);
  for (const std::string& blob : wanted) net.graph.AddOutput(blob, net.tops.at(blob));
  CompileOptions compile;
  compile.name = net.param.name();
  compile.inference = net.param.state().phase() == TEST;
  compile.keep32_layers = LayersInFloat32(net.param);
  const std::vector<DataLayer> data = net.data;
  const std::unique_ptr<Program> program = Compile(std::move(net.graph), store, compile);
  std::set<std::string> taken;
  for (const DataLayer& layer : data) {
    for (size_t i = 0; i < layer.tops.size(); ++i) {
      const std::string& top = layer.tops[i];
      if (!program->HasInput(top)) continue;
      const BlobValues& blob = InputFor(top, layer.types[i].shape, inputs, taken);
      std::ranges::copy(blob.values, program->input(top).as<float>().begin());
    }
  }
  if (program->HasInput("random_key")) program->input("random_key").as<int64_t>()[0] = 0;
  program->Run();
  Blobs found;
  for (const std::string& blob : wanted) {
    const Tensor tensor = program->output(blob);
    const std::span<const float> values = tensor.as<const float>();
    found[blob] = {tensor.shape(), {values.begin(), values.end()}};
  }
  return found;
}

BlobSummary SummaryOf(const BlobValues& blob) {
  BlobSummary summary{blob.shape};
  if (blob.values.empty()) return summary;
  const auto count = static_cast<double>(blob.values.size());
  for (const float value : blob.values) summary.mean += static_cast<double>(value) / count;
  RandomStream random(kZooSeed, StableHash("projection"));
  double squares = 0;
  for (const float value : blob.values) {
    const double off = static_cast<double>(value) - summary.mean;
    squares += off * off;
    summary.projection += off * random.Uniform(-1, 1) / std::sqrt(count);
  }
  summary.deviation = std::sqrt(squares / count);
  return summary;
}

std::string Difference(const BlobSummary& expected, const BlobSummary& found) {
  if (expected.shape != found.shape)
    return StrCat("shape ", found.shape.ToString(), ", expected ", expected.shape.ToString());
  // Values that are all but equal, as those of a softmax at first, are told apart by what is left of their digits.
  const double scale = std::max({expected.deviation, 1e-3 * std::abs(expected.mean), 1e-12});
  for (const auto& [name, want, have] :
       {std::tuple("mean", expected.mean, found.mean), std::tuple("deviation", expected.deviation, found.deviation),
        std::tuple("projection", expected.projection, found.projection)}) {
    if (std::abs(want - have) <= kSummaryTolerance * scale) continue;
    return fmt::format("{} {:.6g}, expected {:.6g}", name, have, want);
  }
  return {};
}

std::vector<std::string> CommonBlobs(const BuiltNet& deployed, const BuiltNet& test) {
  std::vector<std::string> common;
  for (const BuiltNet::Output& output : deployed.outputs) {
    std::vector<std::string> front = {output.name};
    std::set<std::string> seen;
    bool is_found = false;
    while (!front.empty()) {
      const std::string blob = front.back();
      front.pop_back();
      if (!seen.insert(blob).second || IsInput(deployed, blob)) continue;
      if (test.tops.contains(blob)) {
        if (std::ranges::find(common, blob) == common.end()) common.push_back(blob);
        is_found = true;
        continue;
      }
      const LayerParameter* maker = MakerOf(deployed.param, blob);
      if (maker != nullptr) front.insert(front.end(), maker->bottom().begin(), maker->bottom().end());
    }
    if (!is_found) {
      throw Error(ErrorKind::kConfig, {},
                  StrCat("nothing on the way to output \"", output.name, "\" is a blob of the test net, too"),
                  "name blobs alike in both, or say in check.skip why they differ");
    }
  }
  return common;
}

}  // namespace moka

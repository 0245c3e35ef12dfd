// Times are taken by layer from `moka time --json` or shared out by operations; a layer that learns nothing gives its
// time to the learner before it.
#include "tools/measure/net_profile.h"

#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/text.h"
#include "graph/op.h"

namespace moka {
namespace {

// All layers, without times.
ModelProfile LayersOf(const BuiltNet& net) {
  std::map<std::string, int64_t> learned;
  for (const NetBlob& blob : net.blobs) {
    if (!blob.shared && blob.role != ParameterRole::kStatistic) learned[blob.layer] += blob.shape.Count();
  }
  ModelProfile profile;
  profile.name = net.param.name();
  for (const LayerParameter& layer : net.param.layer()) {
    profile.layers.push_back({layer.name(), learned[layer.name()], 0, 0});
  }
  if (profile.elements() == 0) {
    throw Error(ErrorKind::kConfig, StrCat("net \"", Printable(profile.name), "\" learns nothing in this phase"));
  }
  return profile;
}

// Its gradient is ready no earlier than those of the layers joined to it: they come before it in the backward pass.
ModelProfile JoinedToLearners(const ModelProfile& all) {
  ModelProfile profile;
  profile.name = all.name;
  ProfileLayer before;  // what comes before the first layer that learns
  for (const ProfileLayer& layer : all.layers) {
    if (layer.elements > 0) profile.layers.push_back(layer);
    ProfileLayer& learner = profile.layers.empty() ? before : profile.layers.back();
    if (layer.elements > 0) continue;
    learner.forward_s += layer.forward_s;
    learner.backward_s += layer.backward_s;
  }
  profile.layers.front().forward_s += before.forward_s;
  profile.layers.front().backward_s += before.backward_s;
  return profile;
}

}  // namespace

std::map<std::string, int64_t> FlopsByLayer(const BuiltNet& net) {
  std::map<std::string, int64_t> flops;
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    if (node.op->flops == nullptr) continue;
    flops[node.origin.layer] +=
        node.op->flops(node.attributes, net.graph.InputTypes(node), net.graph.OutputTypes(node));
  }
  return flops;
}

ModelProfile ProfileOfNet(const BuiltNet& net, double step_s) {
  ModelProfile profile = LayersOf(net);
  std::map<std::string, int64_t> flops = FlopsByLayer(net);
  std::vector<double> work;
  double sum = 0;
  for (const ProfileLayer& layer : profile.layers) {
    work.push_back(static_cast<double>(flops[layer.name]));
    sum += work.back();
  }
  if (sum <= 0) {
    throw Error(ErrorKind::kConfig, StrCat("net \"", Printable(profile.name), "\" has no layer that computes"));
  }
  SetTimesByWork(profile, work, step_s);
  return JoinedToLearners(profile);
}

ModelProfile ProfileOfNet(const BuiltNet& net, const std::filesystem::path& times_file) {
  ModelProfile profile = LayersOf(net);
  std::map<std::string, std::pair<double, double>> seconds;  // forward, backward
  try {
    const std::string times_json = ReadFile(times_file);
    CheckJsonBounds(times_json, {});
    const nlohmann::json times = nlohmann::json::parse(times_json);
    for (const nlohmann::json& step : times.at("steps")) {
      const std::string part = step.at("part").get<std::string>();
      if (part == "update") continue;
      auto& [forward, backward] = seconds[step.at("layer").get<std::string>()];
      (part == "forward" ? forward : backward) += step.at("ms").get<double>() * 1e-3;
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kBadData, {}, StrCat(times_file.string(), ": no times of layers: ", Printable(error.what())),
                "moka time NET --json prints them");
  }
  for (ProfileLayer& layer : profile.layers) std::tie(layer.forward_s, layer.backward_s) = seconds[layer.name];
  if (profile.forward_s() <= 0 || profile.backward_s() <= 0) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(times_file.string(), ": no times of net \"", Printable(profile.name), "\"'s layers"),
                "moka time NET --json prints them");
  }
  return JoinedToLearners(profile);
}

}  // namespace moka

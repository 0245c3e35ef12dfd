// Heads are found by name and count: a layer of the same name and number of blobs whose first dimension is another.
// Their blobs are left out of what LoadWeights gets, which refuses whatever else differs.
#include "optim/checkpoint/start_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

// A number of outputs in the file and in the net.
using Counts = std::pair<int64_t, int64_t>;

struct MetLayer {
  std::vector<const NamedBlob*> from;
  std::vector<const NetBlob*> to;
};

// The layers that both have, with as many blobs of as many dimensions.
std::map<std::string, MetLayer> MetLayers(const Weights& weights, std::span<const NetBlob> blobs) {
  std::map<std::string, MetLayer> layers;
  for (const NamedBlob& blob : weights.blobs) layers[blob.layer].from.push_back(&blob);
  for (const NetBlob& blob : blobs) layers[blob.layer].to.push_back(&blob);
  for (auto& [name, layer] : layers) {
    std::ranges::sort(layer.from, {}, &NamedBlob::index);
    std::ranges::sort(layer.to, {}, &NetBlob::index);
  }
  std::erase_if(layers, [](const auto& entry) {
    const MetLayer& layer = entry.second;
    return !std::ranges::equal(layer.from, layer.to, [](const NamedBlob* from, const NetBlob* to) {
      return from->index == to->index && from->shape.rank() == to->shape.rank();
    });
  });
  return layers;
}

// The pairs of numbers in which the layers' blobs differ: of outputs, and elsewhere.
struct Differences {
  std::set<Counts> outputs;
  std::set<Counts> inputs;
};
Differences DifferencesOf(const MetLayer& layer) {
  Differences differences;
  for (size_t b = 0; b < layer.to.size(); ++b) {
    const Shape& from = layer.from[b]->shape;
    const Shape& to = layer.to[b]->shape;
    for (int i = 0; i < to.rank(); ++i) {
      if (from[i] != to[i]) (i == 0 ? differences.outputs : differences.inputs).insert({from[i], to[i]});
    }
  }
  return differences;
}

// Each layer that starts fresh, with its numbers of outputs.
std::map<std::string, std::string> HeadsOf(const std::map<std::string, MetLayer>& layers) {
  std::set<Counts> counts;
  for (const auto& [name, layer] : layers) {
    const Differences differences = DifferencesOf(layer);
    if (differences.inputs.empty()) counts.insert(differences.outputs.begin(), differences.outputs.end());
  }
  std::map<std::string, std::string> heads;
  for (const auto& [name, layer] : layers) {
    const Differences differences = DifferencesOf(layer);
    if (differences.outputs.empty() && differences.inputs.empty()) continue;
    if (!std::ranges::includes(counts, differences.inputs)) continue;
    const Counts first = differences.outputs.empty() ? *differences.inputs.begin() : *differences.outputs.begin();
    heads[name] = StrCat(name, " (", first.first, " there, ", first.second, " here)");
  }
  return heads;
}

// The layers of a list that only the file has whose blobs are those of a layer that only the net has.
std::vector<std::string> SameBlobs(const std::string& layer, const std::vector<std::string>& ignored,
                                   const Weights& weights, std::span<const NetBlob> blobs) {
  std::vector<Shape> wanted;
  for (const NetBlob& blob : blobs) {
    if (blob.layer == layer) wanted.push_back(blob.shape);
  }
  std::vector<std::string> same;
  for (const std::string& name : ignored) {
    std::vector<Shape> found;
    for (const NamedBlob& blob : weights.blobs) {
      if (blob.layer == name) found.push_back(blob.shape);
    }
    if (std::ranges::equal(wanted, found, IsSameCaffeShape)) same.push_back(name);
  }
  return same;
}

void WarnOfNearNames(const WeightsLoaded& met, const Weights& weights, const std::string& file,
                     std::span<const NetBlob> blobs) {
  for (const std::string& layer : met.missing) {
    const std::string hint = DidYouMean(layer, SameBlobs(layer, met.ignored, weights, blobs));
    if (hint.empty()) continue;
    LogWarning(StrCat(file, ": it has no layer \"", Printable(layer), "\", which starts fresh; ", hint,
                      " That layer's blobs have the same shapes"));
  }
}

}  // namespace

StartLoaded LoadStartWeights(Weights weights, const std::string& file, std::span<const NetBlob> blobs,
                             ParameterStore& store) {
  const std::map<std::string, std::string> heads = HeadsOf(MetLayers(weights, blobs));
  StartLoaded result;
  for (const auto& [name, text] : heads) result.heads.push_back(text);
  const auto is_head = [&](const std::string& layer) { return heads.contains(layer); };
  std::erase_if(weights.blobs, [&](const NamedBlob& blob) { return is_head(blob.layer); });
  google::protobuf::RepeatedPtrField<LayerParameter> listed;
  listed.Swap(weights.net.mutable_layer());
  for (LayerParameter& layer : listed) {
    if (!is_head(layer.name())) weights.net.add_layer()->Swap(&layer);
  }
  if (weights.blobs.empty()) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat(file, ": all of its layers have other numbers of outputs than the net's: ", Join(result.heads, ", ")),
        "a training from new values needs no --from");
  }
  const WeightsLoaded met = LoadWeights(weights, file, blobs, store);
  result.loaded = met.loaded;
  for (const std::string& layer : met.missing) {
    if (!is_head(layer)) result.missing.push_back(layer);
  }
  WeightsLoaded named = met;
  named.missing = result.missing;
  WarnOfNearNames(named, weights, file, blobs);
  return result;
}

void LoadStart(const std::filesystem::path& file, std::span<const NetBlob> blobs, ParameterStore& store) {
  const std::string name = file.string();
  const StartLoaded met = LoadStartWeights(ReadWeights(file), name, blobs, store);
  LogInfo(StrCat(name, ": weights of ", Counted(std::ssize(met.loaded), "layer", "layers"), " loaded"));
  if (!met.heads.empty()) {
    LogWarning(StrCat(name, " has other numbers of outputs, so ",
                      met.heads.size() == 1 ? "this layer starts" : "these layers start",
                      " fresh: ", Join(met.heads, ", ")));
  }
  if (!met.missing.empty()) LogInfo(StrCat("not in ", name, ", these layers start fresh: ", Join(met.missing, ", ")));
}

}  // namespace moka

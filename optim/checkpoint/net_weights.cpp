// Layers are matched by name and blobs by index, with Caffe's leave for old four-dimensional shapes. All mismatches are
// collected before anything is changed.
#include "optim/checkpoint/net_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/size.h"
#include "core/text.h"
#include "graph/program.h"
#include "proto/nets/filler.h"
#include "proto/text/places.h"
#include "proto/weights/blob_name.h"

namespace moka {
namespace {

using BlobsByLayer = std::map<std::string, std::vector<const NetBlob*>>;

BlobsByLayer ByLayer(std::span<const NetBlob> blobs) {
  BlobsByLayer layers;
  for (const NetBlob& blob : blobs) layers[blob.layer].push_back(&blob);
  return layers;
}

// Whether a file need not have the blob: a running statistic that is a single number, which Caffe keeps outside the
// blobs; and, in Caffe's HDF5 files, a shared blob, which stands with the layer that owns it alone.
bool MayBeAbsent(const NetBlob& blob, bool is_hdf5) {
  const bool is_counter = blob.role == ParameterRole::kStatistic && blob.shape.rank() == 0;
  return is_counter || (is_hdf5 && blob.shared);
}

// Adds an error for each way the file's layer does not fit the net's.
void CheckLayer(const std::string& layer, const std::vector<const NamedBlob*>& from,
                const std::vector<const NetBlob*>& to, const std::string& file, bool is_hdf5,
                std::vector<Error>& errors) {
  const std::string hint = "to train this layer from new values, rename it";
  const auto find = [&](int index) { return std::ranges::find(from, index, &NamedBlob::index); };
  const auto absent = std::ranges::count_if(
      to, [&](const NetBlob* blob) { return MayBeAbsent(*blob, is_hdf5) && find(blob->index) == from.end(); });
  if (from.size() != to.size() && from.size() + static_cast<size_t>(absent) != to.size()) {
    errors.emplace_back(
        ErrorKind::kBadData, SourcePlace{},
        StrCat(file, ": layer \"", layer, "\" has ", from.size(), " blobs and the net's has ", to.size()), hint);
    return;
  }
  for (const NetBlob* blob : to) {
    const auto it = find(blob->index);
    if (it != from.end() && IsSameCaffeShape((*it)->shape, blob->shape)) continue;
    if (it == from.end() && from.size() < to.size() && MayBeAbsent(*blob, is_hdf5)) continue;
    const std::string found = it == from.end() ? "is missing" : StrCat("has shape ", (*it)->shape.ToString());
    errors.emplace_back(ErrorKind::kBadData, SourcePlace{},
                        StrCat(file, ": blob ", blob->index, " of layer \"", layer, "\" ", found,
                               " and the net's has shape ", blob->shape.ToString()),
                        hint);
  }
}

// Refuses parameters that no memory can hold before any of them is allocated.
void CheckMemory(std::span<const NetBlob> blobs, const ParameterStore& store) {
  Size needed = 0;
  const NetBlob* largest = nullptr;
  for (const NetBlob& blob : blobs) {
    if (store.Has(blob.name) || blob.shared) continue;
    needed += Size(blob.shape.Count()) * static_cast<int64_t>(sizeof(float));
    if (largest == nullptr || blob.shape.Count() > largest->shape.Count()) largest = &blob;
  }
  if (needed <= MachineMemoryBytes()) return;
  throw Error(ErrorKind::kUnavailable,
              StrCat("the parameters need ", BytesText(needed.value()), " but this process may use ",
                     BytesText(MachineMemoryBytes()), " (largest: blob ", largest->index, " of layer \"",
                     largest->layer, "\", ", largest->shape.ToString(), ")"));
}

}  // namespace

bool IsSameCaffeShape(const Shape& a, const Shape& b) {
  const auto trimmed = [](const Shape& s) {
    size_t ones = 0;
    while (ones < s.dims().size() && s.dims()[ones] == 1) ++ones;
    return s.dims().subspan(ones);
  };
  return std::ranges::equal(trimmed(a), trimmed(b));
}

void AddBlobs(std::span<const NetBlob> blobs, uint64_t seed, ParameterStore& store) {
  CheckMemory(blobs, store);
  for (const NetBlob& blob : blobs) {
    if (store.Has(blob.name)) {
      const Shape& there = store.type(blob.name).shape;
      if (there == blob.shape) continue;
      throw Error(ErrorKind::kConfig,
                  StrCat("layer \"", blob.layer, "\": blob \"", blob.name, "\" has shape ", blob.shape.ToString(),
                         " here and ", there.ToString(), " in the train net"));
    }
    store.Add(blob.name, blob.shape);
    std::vector<float> values(static_cast<size_t>(blob.shape.Count()));
    try {
      FillBlob(blob.filler, blob.shape, seed, blob.name, values);
    } catch (Error& e) {
      e.AddNote(StrCat("while filling blob ", blob.index, " of layer \"", blob.layer, "\""));
      throw;
    }
    store.Set(blob.name, values);
  }
}

void AddKept(BuiltNet& net, std::string_view program, ParameterStore& store) {
  Size needed = 0;
  for (KeptState& kept : net.kept) {
    kept.name = StrCat(kept.name, "@", program);
    net.graph.SetName(kept.state, kept.name);
    needed += Size(kept.shape.Count()) * static_cast<int64_t>(sizeof(float));
  }
  if (needed > MachineMemoryBytes()) {
    throw Error(ErrorKind::kUnavailable, StrCat("what the layers keep between runs needs ", BytesText(needed.value()),
                                                " but this process may use ", BytesText(MachineMemoryBytes())));
  }
  for (const KeptState& kept : net.kept) {
    if (!store.Has(kept.name)) store.Add(kept.name, kept.shape);
  }
}

WeightsLoaded LoadWeights(const Weights& weights, const std::string& file, std::span<const NetBlob> blobs,
                          ParameterStore& store) {
  std::map<std::string, std::vector<const NamedBlob*>> source;
  for (const NamedBlob& blob : weights.blobs) source[blob.layer].push_back(&blob);
  const BlobsByLayer target = ByLayer(blobs);
  WeightsLoaded result;
  std::vector<Error> errors;
  for (const auto& [layer, from] : source) {
    const auto it = target.find(layer);
    if (it == target.end()) {
      result.ignored.push_back(layer);
      continue;
    }
    CheckLayer(layer, from, it->second, file, weights.format == "hdf5", errors);
    result.loaded.push_back(layer);
  }
  // A layer the file has without blobs is another layer, as Caffe sees it.
  for (const LayerParameter& layer : weights.net.layer()) {
    const auto it = target.find(layer.name());
    if (it == target.end() || source.contains(layer.name())) continue;
    CheckLayer(layer.name(), {}, it->second, file, false, errors);
  }
  for (const auto& [layer, to] : target) {
    const bool is_needed =
        std::ranges::any_of(to, [](const NetBlob* blob) { return !blob->shared && !MayBeAbsent(*blob, false); });
    if (!source.contains(layer) && is_needed) result.missing.push_back(layer);
  }
  if (!errors.empty()) throw ErrorList(std::move(errors));
  if (result.loaded.empty()) {
    const auto torch = std::ranges::find_if(source, [](const auto& layer) { return IsTorchName(layer.first); });
    throw Error(
        ErrorKind::kBadData, {},
        StrCat(file, ": none of its ", source.size(), " layers has the name of one of the net's ", target.size()),
        torch == source.end() ? ""
                              : StrCat("\"", Printable(torch->first), "\" is a name of PyTorch's: moka import ",
                                       Printable(file), " --net NAME gives its weights the names of a net of models/"));
  }
  for (const std::string& layer : result.loaded) {
    for (const NamedBlob* from : source[layer]) {
      const auto& to = target.at(layer);
      const auto it = std::ranges::find_if(to, [&](const NetBlob* b) { return b->index == from->index; });
      store.Set((*it)->name, from->values);
    }
  }
  TakePlainStatistics(blobs, file, store);
  return result;
}

void SetWrittenBlobs(const NetParameter& net, std::span<const NetBlob> blobs, ParameterStore& store) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.blobs_size() == 0) continue;
    NetParameter alone;
    LayerParameter& written = *alone.add_layer();
    written.set_name(layer.name());
    written.set_type(layer.type());
    *written.mutable_blobs() = layer.blobs();
    try {
      LoadWeights(WeightsFromBytes(alone.SerializeAsString(), "the net's text"), "the net's text", blobs, store);
    } catch (const Error& error) {
      throw ErrorAt(layer, "blobs[0]", error.text(), "the layer's blobs have the shapes that moka model show tells");
    }
  }
}

std::vector<NamedBlob> WeightsOf(std::span<const NetBlob> blobs, const ParameterStore& store) {
  std::vector<NamedBlob> weights;
  weights.reserve(blobs.size());
  for (const NetBlob& blob : blobs) weights.push_back({blob.layer, blob.index, blob.shape, store.Values(blob.name)});
  return weights;
}

void TakePlainStatistics(std::span<const NetBlob> blobs, const std::string& file, ParameterStore& store) {
  std::vector<std::string> layers;
  for (size_t i = 0; i + 2 < blobs.size(); ++i) {
    const NetBlob& mean = blobs[i];
    const NetBlob& variance = blobs[i + 1];
    const NetBlob& sum = blobs[i + 2];
    const auto is_statistic = [&](const NetBlob& blob) {
      return blob.layer == mean.layer && blob.role == ParameterRole::kStatistic && blob.shape.rank() == 1;
    };
    if (!is_statistic(mean) || !is_statistic(variance) || !is_statistic(sum)) continue;
    if (mean.shape != variance.shape || sum.shape != Shape{1} || store.Values(sum.name)[0] != 0) continue;
    const auto has_values = [&](const NetBlob& blob) {
      return std::ranges::any_of(store.Values(blob.name), [](float value) { return value != 0; });
    };
    if (!has_values(mean) && !has_values(variance)) continue;  // no batch was seen
    store.Set(sum.name, std::vector<float>{1});
    layers.push_back(mean.layer);
  }
  if (layers.empty()) return;
  LogWarning(StrCat(file,
                    ": statistics with a sum of weights of 0, as NVIDIA's Caffe writes them, are taken as they are: ",
                    Join(layers, ", ")));
}

std::vector<std::string> WeightFileNames(std::string_view list, ErrorKind kind, const SourcePlace& place) {
  std::vector<std::string> files;
  for (const std::string& part : Split(list, ',')) {
    files.emplace_back(Trim(part));
    if (!files.back().empty()) continue;
    throw Error(kind, place, StrCat("weights \"", Printable(list), "\": a file's name is empty"),
                "names stand between commas: a.caffemodel,b.caffemodel");
  }
  return files;
}

std::vector<std::string> ReadWeightFiles(const std::string& list, std::span<const NetBlob> blobs,
                                         ParameterStore& store) {
  std::optional<std::vector<std::string>> missing;
  for (const std::string& file : WeightFileNames(list)) {
    const WeightsLoaded result = LoadWeights(ReadWeights(file), file, blobs, store);
    LogInfo(StrCat(file, ": weights of ", Counted(std::ssize(result.loaded), "layer", "layers"), " loaded"));
    if (!result.ignored.empty()) LogInfo(StrCat(file, ": Ignoring source layer ", Join(result.ignored, ", ")));
    if (!missing) {
      missing = result.missing;
    } else {
      std::erase_if(*missing, [&](const std::string& layer) {
        return std::ranges::find(result.missing, layer) == result.missing.end();
      });
    }
  }
  return missing.value_or(std::vector<std::string>{});
}

void LoadWeightFiles(const std::string& list, std::span<const NetBlob> blobs, ParameterStore& store) {
  const std::vector<std::string> missing = ReadWeightFiles(list, blobs, store);
  if (!missing.empty()) LogInfo(StrCat("not in ", list, ", these layers start fresh: ", Join(missing, ", ")));
}

}  // namespace moka

// A file is first met with its own net's table; only where it does not fit are the other tables of the zoo looked at,
// and only nets whose names fit as well as any are built to compare shapes.
#include "tools/exchange/torch_import.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/text_table.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/net.h"
#include "layers/shapes/data_guess.h"
#include "proto/nets/net_file.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/weights.h"
#include "tools/exchange/torch_weights.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamed = 3;  // names that an error tells

std::string FirstOf(const std::vector<std::string>& names) { return Printable(SomeOf(names, kNamed)); }

// Data are asked for their shapes where the layer's fields leave them open.
std::vector<TensorType> TypesOf(const LayerParameter& layer) {
  const bool is_open = IsPipelineLayer(layer.type()) && !GuessTypes(layer).assumed.empty();
  return is_open ? ProbeDataTypes(TEST, {})(layer) : GuessDataTypes()(layer);
}

// The net as it is deployed.
BuiltNet BuiltForWeights(const NetParameter& net) {
  NetOptions options;
  options.state.set_phase(TEST);
  options.state.add_stage("deploy");
  options.data_types = TypesOf;
  return BuildNet(net, options);
}

// Models of the zoo with a table of names, by name.
std::vector<std::pair<std::string, fs::path>> ModelsWithTable() {
  std::vector<std::pair<std::string, fs::path>> models;
  const std::optional<fs::path> folder = FindModelsFolder();
  std::error_code code;
  if (!folder) return models;
  for (const std::string& name : ModelNames(*folder)) {
    if (fs::is_regular_file(*folder / name / kTorchNamesFile, code)) models.emplace_back(name, *folder / name);
  }
  return models;
}

// The zoo's net that the file's tensors fit best; empty where fewer than half of the names fit any.
std::string NearestModel(const Weights& weights) {
  std::set<std::string> tensors;
  for (const NamedBlob& blob : weights.blobs) tensors.insert(blob.layer);
  size_t most = (tensors.size() + 1) / 2;
  std::vector<std::pair<std::string, fs::path>> best;
  for (const auto& model : ModelsWithTable()) {
    const TorchNames names = ReadTorchNames(model.second / kTorchNamesFile);
    const auto known = static_cast<size_t>(
        std::ranges::count_if(names.rows, [&](const TorchNames::Row& row) { return tensors.contains(row.tensor); }));
    const size_t strangers = tensors.size() - known + (names.rows.size() - known);
    if (names.rows.empty() || strangers > tensors.size()) continue;
    const size_t fitting = tensors.size() - strangers;
    if (fitting < most) continue;
    if (fitting > most) best.clear();
    most = fitting;
    best.push_back(model);
  }
  if (best.size() == 1) return best.front().first;
  std::string nearest;
  size_t fewest = SIZE_MAX;
  for (const auto& [name, folder] : best) {
    const BuiltNet built = BuiltForWeights(ReadNet(folder / "train_val.prototxt"));
    const TorchNames names = ReadTorchNames(folder / kTorchNamesFile);
    const size_t others = MatchTorch(names, weights, built.blobs).other_shapes.size();
    if (others < fewest) nearest = name;
    fewest = std::min(fewest, others);
  }
  return nearest;
}

[[noreturn]] void RefuseStrangers(const TorchNames& names, const TorchMatch& match, const Weights& weights,
                                  const std::string& file) {
  std::vector<std::string> parts;
  if (!match.strangers.empty()) {
    parts.push_back(
        StrCat(match.strangers.size(), " of ", match.tensors, " names unmatched (", FirstOf(match.strangers), ")"));
  }
  if (!match.missing.empty()) {
    parts.push_back(StrCat(match.missing.size(), " of the ", names.rows.size(), " that ", names.module,
                           " has are missing (", FirstOf(match.missing), ")"));
  }
  if (!match.other_shapes.empty()) {
    parts.push_back(StrCat(match.other_shapes.size(),
                           match.other_shapes.size() == 1 ? " shape differs (" : " shapes differ (",
                           FirstOf(match.other_shapes), ")"));
  }
  const std::string nearest = NearestModel(weights);
  const std::string own = fs::path(names.file).parent_path().filename().string();
  const bool has_nearer = !nearest.empty() && nearest != own;
  std::string hint = has_nearer ? StrCat("--net models/", nearest, " is nearest") : "";
  if (!has_nearer && !match.other_shapes.empty() && match.strangers.empty() && match.missing.empty())
    hint = "the names are the net's: PyTorch keeps a Linear's weight as [out,in] and a Conv2d's as [out,in,kh,kw]";
  throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
              StrCat("these are not weights of ", names.module, ": ", Join(parts, ", "),
                     has_nearer ? StrCat("; nearest: ", nearest) : ""),
              hint);
}

// Wrappers of modules put a word before every name.
void StripWrapper(const TorchNames& names, const std::string& file, Weights& weights) {
  const auto is_known = [&](std::string_view tensor) {
    return std::ranges::any_of(names.rows, [&](const TorchNames::Row& row) { return row.tensor == tensor; });
  };
  for (const std::string_view wrapper : {"module.", "_orig_mod.", "model."}) {
    const auto is_wrapped = [&](const NamedBlob& blob) { return blob.layer.starts_with(wrapper); };
    if (!std::ranges::all_of(weights.blobs, is_wrapped)) continue;
    if (is_known(weights.blobs.front().layer)) continue;
    for (NamedBlob& blob : weights.blobs) blob.layer.erase(0, wrapper.size());
    LogInfo(StrCat(file, ": all names begin with \"", wrapper, "\", which is left out"));
  }
}

// Weights by the net's own names need no table.
void RefuseOwnNames(const Weights& weights, std::span<const NetBlob> blobs, const std::string& file) {
  std::set<std::string> own;
  for (const NetBlob& blob : blobs) own.insert(blob.layer);
  const auto known =
      std::ranges::count_if(weights.blobs, [&](const NamedBlob& blob) { return own.contains(blob.layer); });
  if (2 * known <= std::ssize(weights.blobs)) return;
  throw Error(ErrorKind::kUsage, {}, StrCat(Printable(file), " has the net's own names already"),
              StrCat("--weights ", Printable(file), " takes it as it is"));
}

}  // namespace

void RefuseOtherNet(const TorchNames& names) {
  if (names.difference.empty()) return;
  throw Error(ErrorKind::kConfig, {.file = names.file},
              StrCat("weights of ", names.module, " are not this net's: ", names.difference));
}

TorchNames TorchNamesFor(const fs::path& net, const std::string& model) {
  std::error_code code;
  const fs::path beside = net.parent_path() / kTorchNamesFile;
  if (fs::exists(beside, code)) return ReadTorchNames(beside);
  std::vector<std::string> known;
  for (const auto& [name, folder] : ModelsWithTable()) {
    if (name == model) return ReadTorchNames(folder / kTorchNamesFile);
    if (ReadTorchNames(folder / kTorchNamesFile).difference.empty()) known.push_back(name);
  }
  throw Error(ErrorKind::kNoInput, {},
              StrCat("no ", kTorchNamesFile, " beside ", Printable(net.string()),
                     ": nothing says how PyTorch calls this net's weights"),
              StrCat("models with such a table: ", Join(known, ", ")));
}

ImportedWeights ImportTorchWeights(const fs::path& weights, const fs::path& net,
                                   const std::vector<std::string>& overrides) {
  const std::string file = weights.string();
  ImportedWeights result;
  result.net = ReadNet(net, {.overrides = overrides});
  result.names = TorchNamesFor(net, {});
  RefuseOtherNet(result.names);
  const BuiltNet built = BuiltForWeights(result.net);
  Weights read = ReadWeights(weights, BadNumbers::kRefused);
  RefuseOwnNames(read, built.blobs, file);
  StripWrapper(result.names, file, read);
  const TorchMatch match = MatchTorch(result.names, read, built.blobs);
  if (!match.IsWhole()) RefuseStrangers(result.names, match, read, file);
  result.tensors = match.tensors;
  result.left_out = match.left_out;
  FromTorch from = BlobsFromTorch(result.names, read, built.blobs);
  result.blobs = std::move(from.blobs);
  result.fresh = std::move(from.fresh);
  result.swapped = std::move(from.swapped);
  result.inputs = SetTorchInput(result.names, result.net);
  if (!result.fresh.empty()) {
    LogWarning(StrCat(file, ": the number of classes is another than the net's: ", Join(result.fresh, ", "),
                      result.fresh.size() == 1 ? " is" : " are", " left out and will start fresh in a training"));
  }
  return result;
}

}  // namespace moka

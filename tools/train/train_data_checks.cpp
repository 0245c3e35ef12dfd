// Compares class names and vocabularies of data layers with each other and with those kept in the run; the first
// disagreement is told with both places.
#include "tools/train/train_data_checks.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/records/class_names.h"
#include "data/text/vocabulary.h"
#include "layers/net/layer.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "proto/text/places.h"
#include "tools/measure/made_up_data.h"
#include "tools/nets/checkpoint_source.h"

namespace moka {
namespace {

const std::string& SourceOf(const LayerParameter& layer) {
  return layer.has_image_data_param() ? layer.image_data_param().source() : layer.data_param().source();
}

std::set<std::string> SourcesOf(const NetParameter& net) {
  std::set<std::string> sources;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() == 0 && !SourceOf(layer).empty()) sources.insert(SourceOf(layer));
  }
  return sources;
}

std::vector<std::string> ClassNamesOfNet(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() > 0) continue;
    std::vector<std::string> names = ClassNamesOf(layer, {});
    if (!names.empty()) return names;
  }
  return {};
}

// Returns the class names that a run keeps beside its net; empty for what is no run.
std::vector<std::string> ClassNamesOfRun(const std::filesystem::path& config) {
  std::error_code code;
  const std::filesystem::path file = config / "labels.txt";
  if (!IsRun(config.parent_path()) || !std::filesystem::is_regular_file(file, code)) return {};
  return ReadNameLines(file);
}

// The first number that means two things; a split may lack the last classes.
void CheckClassNames(const std::vector<std::string>& trained, const LayerParameter& layer) {
  if (layer.bottom_size() > 0) return;
  const std::vector<std::string> tested = ClassNamesOf(layer, {});
  const size_t both = std::min(trained.size(), tested.size());
  for (size_t i = 0; i < both; ++i) {
    if (trained[i] == tested[i]) continue;
    throw Error(ErrorKind::kConfig, PlaceOf(layer),
                StrCat("layer \"", layer.name(), "\": class ", i, " of ", Printable(SourceOf(layer)), " is \"",
                       Printable(tested[i]), "\", in the training's data \"", Printable(trained[i]), "\""),
                "import both with one list of classes: moka data import --classes FILE");
  }
}

// Tops that hold numbers of words, and the vocabularies that these come from.
std::vector<std::pair<std::string, std::string>> WordTops(const LayerParameter& layer) {
  std::vector<std::pair<std::string, std::string>> tops;
  const LayerDef* def = FindLayer(layer.type());
  if (def == nullptr || def->words == nullptr) return tops;
  for (int i = 0; i < layer.top_size(); ++i) {
    const std::string file = def->words(layer, i);
    if (!file.empty()) tops.emplace_back(layer.top(i), file);
  }
  return tops;
}

void CheckVocabulariesOfNet(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    for (const auto& [top, file] : WordTops(layer)) {
      std::error_code code;
      const int64_t rows = RowsRead(net, top);
      if (rows == 0 || !std::filesystem::is_regular_file(file, code)) continue;
      const int64_t words = Vocabulary(file).size();
      if (words <= rows) continue;
      throw Error(ErrorKind::kConfig, PlaceOf(layer),
                  StrCat("layer \"", layer.name(), "\": ", Printable(file), " has ", words,
                         " words, and a layer that \"", top, "\" goes to has ", rows, " rows (input_dim)"),
                  StrCat("set input_dim to ", words, ", or make a shorter list with moka data vocabulary --most ",
                         rows - static_cast<int64_t>(kMarkWords.size())));
    }
  }
}

// The same words, as far as the files can be read here.
bool AreSameWords(const std::string& a, const std::string& b) {
  if (a == b) return true;
  std::error_code code;
  if (!std::filesystem::is_regular_file(a, code) || !std::filesystem::is_regular_file(b, code)) return true;
  return Vocabulary(a).words() == Vocabulary(b).words();
}

// Warns where a test's pairs are made otherwise than the training's: their numbers mean other words then.
void WarnOfOtherPairs(const LayerParameter& trained, const LayerParameter& tested) {
  const TextPairDataParameter& a = trained.text_pair_data_param();
  const TextPairDataParameter& b = tested.text_pair_data_param();
  const auto warn = [&](std::string_view field, const std::string& here, const std::string& there) {
    LogWarning(StrCat(PlaceOf(tested, StrCat("text_pair_data_param.", field)).ToString(), ": layer \"", tested.name(),
                      "\": ", field, " is ", Printable(here), ", and layer \"", trained.name(), "\" trains with ",
                      Printable(there), ": what is tested is not what was learnt"));
  };
  if (!AreSameWords(a.source_vocabulary(), b.source_vocabulary()))
    warn("source_vocabulary", b.source_vocabulary(), a.source_vocabulary());
  if (!AreSameWords(a.target_vocabulary(), b.target_vocabulary()))
    warn("target_vocabulary", b.target_vocabulary(), a.target_vocabulary());
  if (a.tokens() != b.tokens()) warn("tokens", TextTokens_Name(b.tokens()), TextTokens_Name(a.tokens()));
  if (a.reverse_source() != b.reverse_source())
    warn("reverse_source", b.reverse_source() ? "true" : "false", a.reverse_source() ? "true" : "false");
}

const LayerParameter* PairsOf(const NetParameter& net) {
  const auto found = std::ranges::find_if(
      net.layer(), [](const LayerParameter& layer) { return TraitsOf(layer).data == DataKind::kPairs; });
  return found == net.layer().end() ? nullptr : &*found;
}

}  // namespace

void CheckVocabularies(const SolverNets& nets) {
  CheckVocabulariesOfNet(nets.train);
  for (const NetParameter& test : nets.tests) CheckVocabulariesOfNet(test);
  const LayerParameter* trained = PairsOf(nets.train);
  if (trained == nullptr) return;
  for (const NetParameter& test : nets.tests) {
    if (const LayerParameter* tested = PairsOf(test)) WarnOfOtherPairs(*trained, *tested);
  }
}

void CheckTestedClasses(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                        const NetParameter& tested) {
  const std::vector<std::string> names = ClassNamesOfNet(tested);
  if (names.empty()) return;
  const std::vector<std::string> kept = ClassNamesOfRun(file.parent_path());
  const auto is_kept = [&](const std::string& name) { return std::ranges::find(kept, name) != kept.end(); };
  std::vector<std::string> trained = kept;
  // A model's own list may call the classes otherwise than its database.
  if (std::ranges::none_of(names, is_kept)) {
    NetReadOptions read;
    for (const std::string& text : overrides) {
      if (!Trim(std::string_view(text).substr(0, text.find('='))).ends_with(".source")) read.overrides.push_back(text);
    }
    trained = ClassNamesOfNet(FilterNet(ReadNet(file, read), TRAIN));
  }
  for (const LayerParameter& layer : tested.layer()) CheckClassNames(trained, layer);
}

void CheckTestData(const SolverNets& nets, bool are_overridden) {
  const std::vector<std::string> trained = ClassNamesOfNet(nets.train);
  const std::set<std::string> sources = SourcesOf(nets.train);
  std::set<std::string> tested;
  for (const NetParameter& test : nets.tests) {
    for (const LayerParameter& layer : test.layer()) CheckClassNames(trained, layer);
    tested.merge(SourcesOf(test));
  }
  if (!tested.empty() && std::ranges::includes(sources, tested)) {
    LogWarning(StrCat(
        "tests read ", Printable(*tested.begin()), ", which is trained on: they say nothing of other data",
        are_overridden ? " (an override of layer[NAME] is for every layer of that name, layer[0] for the first)" : ""));
  }
}

}  // namespace moka

#include "tools/train_data_checks.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/class_names.h"
#include "data/text/vocabulary.h"
#include "proto/places.h"
#include "tools/zoo/made_up_data.h"

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
                "import both with one list of classes");
  }
}

// Tops that hold numbers of words, and the vocabularies that these come from.
std::vector<std::pair<std::string, std::string>> WordTops(const LayerParameter& layer) {
  std::vector<std::pair<std::string, std::string>> tops;
  for (int i = 0; i < layer.top_size(); ++i) {
    std::string file;
    if (layer.type() == "TextPairData" && i < layer.text_pair_data_param().output_size()) {
      const TextPairDataParameter& p = layer.text_pair_data_param();
      if (p.output(i) == TextPairDataParameter::SOURCE) file = p.source_vocabulary();
      if (p.output(i) == TextPairDataParameter::TARGET) file = p.target_vocabulary();
    } else if (layer.type() == "StoryData" && i < layer.story_data_param().output_size()) {
      const StoryDataParameter& p = layer.story_data_param();
      const bool is_text = p.output(i) == StoryDataParameter::STORY || p.output(i) == StoryDataParameter::QUESTION;
      if (is_text) file = p.vocabulary();
    } else if (layer.type() == "SkipGramData" && i < layer.skip_gram_data_param().output_size()) {
      const SkipGramDataParameter& p = layer.skip_gram_data_param();
      if (p.output(i) != SkipGramDataParameter::IS_NEAR) file = p.vocabulary();
    }
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

}  // namespace

void CheckVocabularies(const SolverNets& nets) {
  CheckVocabulariesOfNet(nets.train);
  for (const NetParameter& test : nets.tests) CheckVocabulariesOfNet(test);
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

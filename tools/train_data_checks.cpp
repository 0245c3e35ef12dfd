#include "tools/train_data_checks.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/class_names.h"
#include "proto/places.h"

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

}  // namespace

void CheckTestData(const SolverNets& nets) {
  const std::vector<std::string> trained = ClassNamesOfNet(nets.train);
  const std::set<std::string> sources = SourcesOf(nets.train);
  std::set<std::string> tested;
  for (const NetParameter& test : nets.tests) {
    for (const LayerParameter& layer : test.layer()) CheckClassNames(trained, layer);
    tested.merge(SourcesOf(test));
  }
  if (!tested.empty() && std::ranges::includes(sources, tested)) {
    LogWarning(StrCat("tests read ", Printable(*tested.begin()),
                      ", which is trained on: they say nothing of other data (an override of layer[NAME] is for every "
                      "layer of that name, layer[0] for the first)"));
  }
}

}  // namespace moka

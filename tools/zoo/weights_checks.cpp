// Checks of the trained weights that an entry carries: that they are the card's, that its nets take them, and, where
// the data is there, that they reach the metric which the card says.
#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/trained_weights.h"
#include "tools/measure/made_up_data.h"
#include "tools/nets/zoo_weights.h"
#include "tools/zoo/checks.h"
#include "tools/zoo/net_values.h"
#include "tools/zoo/pack.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Other kernels round otherwise, and a score at the threshold may fall on its other side.
constexpr double kMetricTolerance = 0.002;

// Errors: those of LoadTrainedWeights.
void LoadInto(const NetParameter& net, const std::string& weights) {
  const BuiltNet built = BuildAsIs(net);
  ParameterStore store;
  for (const NetBlob& blob : built.blobs) {
    if (!store.Has(blob.name)) store.Add(blob.name, blob.shape);
  }
  LoadTrainedWeights(weights, built.blobs, store);
}

}  // namespace

std::vector<CheckResult> CheckWeights(const CheckContext& context) {
  const ZooEntry& entry = context.entry;
  const ZooWeights* row = OwnWeightsOf(entry.card);
  if (row == nullptr) return {};
  const fs::path weights = *ZooWeightsOf(entry.folder);
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    if (recipe.solver() != row->solver()) continue;
    const ZooCheck& check = entry.card.check();
    const RecipeNets nets = ReadRecipe(entry, recipe);
    const NetParameter test = WithMadeUpData(nets.nets.tests.at(0), check, check.batch());
    LoadInto(test, weights.string());
    if (SkipOf(entry, "deploy") == nullptr) LoadInto(DeployedNet(entry, test), weights.string());
    return {
        Holds("weights", fmt::format("{}, {}, {} bytes, as the card says", row->file(), row->dtype(), row->bytes()))};
  }
  return {Fails("weights", StrCat("the card's weights are of ", Printable(row->solver()), ", which is no recipe"))};
}

std::vector<CheckResult> CheckMetric(const CheckContext& context) {
  const ZooEntry& entry = context.entry;
  const ZooWeights* row = OwnWeightsOf(entry.card);
  if (row == nullptr || !row->has_metric()) return {};
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    if (recipe.solver() != row->solver()) continue;
    if (const std::vector<std::string> missing = MissingData(ReadRecipe(entry, recipe)); !missing.empty())
      return {Skipped("metric", StrCat("its data is not there: ", missing.front()))};
    ZooRecipe tested = recipe;
    tested.set_metric(row->metric());
    const double value = TestWeights(entry, tested, *ZooWeightsOf(entry.folder)).value;
    const std::string text = fmt::format("{} {:.6g}, the card says {:.6g}", row->metric(), value, row->value());
    const bool is_it = std::abs(value - row->value()) <= kMetricTolerance * std::abs(row->value());
    return {is_it ? Holds("metric", text) : Fails("metric", text)};
  }
  return {};
}

}  // namespace moka

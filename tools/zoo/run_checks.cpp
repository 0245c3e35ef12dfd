// Tiers "nightly" and "release": trainings on the real data, judged by their last test.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "optim/run/run_folder.h"
#include "optim/run/target.h"
#include "tools/cli/command_line.h"
#include "tools/infer/source.h"
#include "tools/infer/translate.h"
#include "tools/zoo/checks.h"
#include "tools/zoo/pack.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The metric of a run's last test.
std::optional<double> LastMetric(const fs::path& run, const std::string& metric) {
  std::optional<double> last;
  for (const MetricLine& line : ReadMetrics(run)) {
    if (line.split != "test") continue;
    for (const auto& [name, value] : line.metrics) {
      if (name == metric) last = value;
    }
  }
  return last;
}

// Trains with `more` behind the recipe and compares the metric with the floor.
CheckResult TrainToFloor(const CheckContext& context, std::string_view check, const std::vector<std::string>& more,
                         std::optional<double> floor) {
  const ZooEntry& entry = context.entry;
  const ZooRecipe& recipe = entry.card.recipe(0);
  const RecipeNets nets = ReadRecipe(entry, recipe, more);
  const std::vector<std::string> missing = MissingData(nets);
  if (!missing.empty()) {
    const std::vector<std::string> commands = DataCommands(entry);
    return Skipped(check, StrCat("its data is not there: ", missing.front(),
                                 commands.empty() ? "" : StrCat("; ", Join(commands, " && "))));
  }
  std::vector<std::string> words = TrainingWords(entry, recipe, more);
  words.insert(words.end(), {"--run", StrCat(entry.name, "-", check), "--runs", context.runs.string()});
  if (const int code = RunTraining(words); code != 0)
    return Fails(check, StrCat("moka train ", Join(words, " "), " ended with ", code));
  std::optional<double> value = LastMetric(context.runs / "latest", recipe.metric());
  if (!value && recipe.metric() == "BLEU" && entry.card.task() == ModelCard::TRANSLATE) {
    value = BleuOfTestPairs(
        InferSourceOf(ParseArguments(*FindVerb(AllVerbs(), "infer"), {(context.runs / "latest").string()})));
  }
  if (!value) return Fails(check, StrCat("the training's tests have no \"", recipe.metric(), "\""));
  const std::string text = fmt::format("{} {:.5g} at the end", recipe.metric(), *value);
  if (!floor) return Holds(check, text);
  const bool is_smaller = !nets.nets.tests.empty() && IsSmallerBetter(recipe, nets.nets.tests[0]);
  const bool is_reached = MeetsTarget(*value, *floor, is_smaller);
  const std::string against = fmt::format("{}, {} {:.5g}", text, is_smaller ? "ceiling" : "floor", *floor);
  return is_reached ? Holds(check, against) : Fails(check, against);
}

}  // namespace

int RunTraining(const std::vector<std::string>& words) {
  const Verb& train = *FindVerb(AllVerbs(), "train");
  return train.run(ParseArguments(train, words));
}

std::vector<std::string> MissingData(const RecipeNets& recipe) {
  std::vector<std::string> missing;
  const auto look = [&](const NetParameter& net, Phase phase) {
    for (const LayerParameter& layer : net.layer()) {
      if (!IsPipelineLayer(layer.type())) continue;
      try {
        (void)OpenPipeline(layer, {.phase = phase});
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kNoInput) throw;
        if (std::ranges::find(missing, error.text()) == missing.end()) missing.push_back(error.text());
      }
    }
  };
  for (const NetParameter& train : TrainNetsOf(recipe)) look(train, TRAIN);
  for (const NetParameter& test : recipe.nets.tests) look(test, TEST);
  return missing;
}

std::vector<std::string> DataCommands(const ZooEntry& entry) {
  std::vector<std::string> commands;
  for (const ZooData& data : entry.card.data())
    commands.insert(commands.end(), data.command().begin(), data.command().end());
  const fs::path root = entry.folder.parent_path().parent_path();
  std::error_code code;
  for (std::string& command : commands) {
    if (fs::is_regular_file(root / command.substr(0, command.find(' ')), code)) command = (root / command).string();
  }
  return commands;
}

std::vector<CheckResult> CheckShortRun(const CheckContext& context) {
  const ZooRecipe& recipe = context.entry.card.recipe(0);
  if (!recipe.has_nightly()) return {Skipped("short_run", "the card names no short training")};
  std::optional<double> floor;
  if (recipe.nightly().has_floor()) floor = recipe.nightly().floor();
  const auto& more = recipe.nightly().override();
  return {TrainToFloor(context, "short_run", {more.begin(), more.end()}, floor)};
}

std::vector<CheckResult> CheckRecipe(const CheckContext& context) {
  const ZooRecipe& recipe = context.entry.card.recipe(0);
  std::optional<double> floor;
  if (recipe.has_floor()) floor = recipe.floor();
  std::vector<std::string> more;
  if (recipe.result_size() > 0 && recipe.result(0).has_seed())
    more.push_back(StrCat("random_seed=", recipe.result(0).seed()));
  return {TrainToFloor(context, "recipe", more, floor)};
}

}  // namespace moka

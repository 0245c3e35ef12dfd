// Tier "static": what a card, its solvers and nets say, read and built, nothing computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "graph/graph.h"
#include "optim/optimizers/lr_policy.h"
#include "proto/nets/model_card.h"
#include "proto/nets/solver_file.h"
#include "tools/zoo/checks.h"
#include "tools/zoo/tables.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Every sentence that is wrong, in one result.
CheckResult StaticVerdict(std::string_view check, const std::vector<std::string>& wrong, std::string found) {
  if (wrong.empty()) return Holds(check, std::move(found));
  std::vector<std::string> once;  // several recipes may have one fault
  for (const std::string& each : wrong) {
    if (std::ranges::find(once, each) == once.end()) once.push_back(each);
  }
  return Fails(check, Join(once, "; "));
}

bool IsThere(const fs::path& file) {
  std::error_code code;
  return fs::exists(file, code);
}

// Solvers of the folder that no recipe names: nobody would know how they did.
void NameLostSolvers(const ZooEntry& entry, std::vector<std::string>& wrong) {
  std::set<std::string> named;
  std::error_code code;
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    named.insert(recipe.solver());
    const fs::path file = entry.folder / recipe.solver();
    if (fs::is_regular_file(file, code)) named.insert(ReadSolver(file).first_solver());
  }
  std::set<std::string> lost;
  for (const fs::directory_entry& each : fs::directory_iterator(entry.folder, code)) {
    const std::string file = each.path().filename().string();
    const bool is_solver = file.starts_with("solver") && file.ends_with(".prototxt");
    if (is_solver && !named.contains(file)) lost.insert(file);
  }
  for (const std::string& file : lost) wrong.push_back(StrCat(file, " is in no recipe"));
}

void NameWrongResults(const ZooEntry& entry, const ZooRecipe& recipe, std::vector<std::string>& wrong) {
  if (!IsThere(entry.folder / recipe.solver())) wrong.push_back(StrCat("there is no ", recipe.solver()));
  if (!recipe.has_summary()) wrong.push_back(StrCat("the recipe ", recipe.solver(), " has no summary"));
  if (recipe.result_size() > 0 && !recipe.has_metric())
    wrong.push_back(StrCat("the recipe ", recipe.solver(), " has results and no metric"));
  std::set<int64_t> seeds;
  for (const ZooResult& result : recipe.result()) {
    if (!result.has_value() || !std::isfinite(result.value()))
      wrong.push_back(StrCat("a result of ", recipe.solver(), " has no value"));
    if (!seeds.insert(result.seed()).second)
      wrong.push_back(StrCat("seed ", result.seed(), " of ", recipe.solver(), " stands twice"));
    // Logs lie beside the card, or in docs/results of the repository.
    const bool is_there =
        IsThere(entry.folder / result.log()) || IsThere(entry.folder.parent_path().parent_path() / result.log());
    if (result.has_log() && !is_there) wrong.push_back(StrCat("there is no log ", result.log()));
  }
  for (const ZooPeer& peer : recipe.peer()) {
    if (!peer.has_engine() || peer.value_size() == 0)
      wrong.push_back(StrCat("a peer of ", recipe.solver(), " has no engine or no value"));
  }
}

void NameWrongSkips(const ModelCard& card, std::vector<std::string>& wrong) {
  std::vector<std::string> names;
  for (const EntryCheck& check : AllEntryChecks()) names.insert(names.end(), check.names.begin(), check.names.end());
  for (const ZooSkip& skip : card.check().skip()) {
    if (std::ranges::find(names, skip.check()) == names.end()) {
      const std::string hint = DidYouMean(skip.check(), names);
      wrong.push_back(StrCat("check.skip: no check \"", skip.check(), "\"", hint.empty() ? "" : ", ", hint));
    }
    if (!skip.has_reason()) wrong.push_back(StrCat("check.skip: \"", skip.check(), "\" is skipped without a reason"));
  }
}

// Tops that the card speaks of and no data layer has.
void NameWrongTops(const ZooEntry& entry, const RecipeNets& recipe, std::vector<std::string>& wrong) {
  std::set<std::string> tops;
  const auto collect = [&](const NetParameter& net) {
    for (const LayerParameter& layer : net.layer()) {
      if (IsPipelineLayer(layer.type())) tops.insert(layer.top().begin(), layer.top().end());
    }
  };
  for (const NetParameter& train : TrainNetsOf(recipe)) collect(train);
  for (const NetParameter& test : recipe.nets.tests) collect(test);
  for (const ZooTop& top : entry.card.check().top()) {
    if (tops.contains(top.name())) continue;
    const std::string hint = DidYouMean(top.name(), {tops.begin(), tops.end()});
    wrong.push_back(StrCat("check.top: no data layer has a top \"", top.name(), "\"", hint.empty() ? "" : ", ", hint));
  }
}

// Builds one net over made-up data; adds what its blobs are to `shapes`.
int BuildOne(const ZooEntry& entry, const NetParameter& net, std::map<std::string, Shape>& shapes,
             const std::string& what, std::vector<std::string>& wrong) {
  const ZooCheck& check = entry.card.check();
  const BuiltNet built = BuildAsIs(WithMadeUpData(net, check, check.batch()));
  Verify(built.graph, "BuildNet");
  for (const NetBlob& blob : built.blobs) {
    const auto [known, is_new] = shapes.emplace(blob.name, blob.shape);
    if (!is_new && known->second != blob.shape)
      wrong.push_back(
          StrCat(what, ": ", blob.name, " is ", blob.shape.ToString(), ", elsewhere ", known->second.ToString()));
  }
  if (net.state().phase() == TRAIN && built.loss == kNoId) wrong.push_back(StrCat(what, " has no loss"));
  return built.param.layer_size();
}

const NetParameter& FirstTest(const ZooEntry& entry, const RecipeNets& recipe) {
  if (recipe.nets.tests.empty()) {
    throw Error(ErrorKind::kConfig, {}, StrCat(entry.name, ": ", entry.card.recipe(0).solver(), " tests nothing"),
                "give test_iter, so that the metric can be measured");
  }
  return recipe.nets.tests[0];
}

void CompareCount(std::string_view what, int64_t said, int64_t found, std::string_view who,
                  std::vector<std::string>& wrong) {
  if (said != found) wrong.push_back(StrCat(what, ": ", who, " says ", said, ", the net has ", found));
}

}  // namespace

std::vector<CheckResult> CheckCard(const CheckContext& context) {
  const ZooEntry& entry = context.entry;
  const ModelCard& card = entry.card;
  std::vector<std::string> wrong;
  if (card.name() != entry.name) wrong.push_back(StrCat("its name is \"", card.name(), "\""));
  if (!card.has_title()) wrong.emplace_back("it has no title");
  if (!card.has_paper() && !card.has_provenance()) wrong.emplace_back("it names neither paper nor provenance");
  if (card.data_size() == 0) wrong.emplace_back("it names no data");
  for (const ZooData& data : card.data()) {
    if (!data.has_name() || data.split_size() == 0 || data.command_size() == 0)
      wrong.push_back(StrCat("data \"", data.name(), "\" has no name, split or command"));
  }
  for (const ZooRecipe& recipe : card.recipe()) NameWrongResults(entry, recipe, wrong);
  for (const ZooPublished& each : card.published()) {
    if (!each.has_metric() || !each.has_value() || !each.has_source())
      wrong.push_back(StrCat("published \"", each.metric(), "\" has no metric, value or source"));
  }
  NameLostSolvers(entry, wrong);
  NameWrongSkips(card, wrong);
  return {StaticVerdict("card", wrong, std::string(Describe(StatusOf(card))))};
}

std::vector<CheckResult> CheckNets(const CheckContext& context) {
  const ZooEntry& entry = context.entry;
  std::vector<std::string> wrong;
  std::vector<std::string> found;
  for (const ZooRecipe& each : entry.card.recipe()) {
    const RecipeNets recipe = ReadRecipe(entry, each);
    // A template leaves its rate to the command line.
    if (recipe.solver.has_base_lr()) CheckLrPolicy(recipe.solver);
    NameWrongTops(entry, recipe, wrong);
    std::map<std::string, Shape> shapes;
    int layers = 0;
    for (const NetParameter& train : TrainNetsOf(recipe))
      layers += BuildOne(entry, train, shapes, StrCat(each.solver(), ": the train net"), wrong);
    (void)FirstTest(entry, recipe);
    for (const NetParameter& test : recipe.nets.tests)
      BuildOne(entry, test, shapes, StrCat(each.solver(), ": the test net"), wrong);
    if (found.empty()) found.push_back(StrCat(layers, " layers in training"));
  }
  found.push_back(StrCat(entry.card.recipe_size(), entry.card.recipe_size() == 1 ? " recipe" : " recipes"));
  return {StaticVerdict("nets", wrong, Join(found, ", "))};
}

void MeasureCounts(const ZooEntry& entry, Expected& expected) {
  const ZooCheck& check = entry.card.check();
  const RecipeNets recipe = ReadRecipe(entry, entry.card.recipe(0));
  const NetCounts train = CountsOf(BuildAsIs(WithMadeUpData(recipe.nets.train, check, check.batch())));
  const NetParameter test = WithMadeUpData(FirstTest(entry, recipe), check, check.batch());
  const BuiltNet deployed = BuildAsIs(SkipOf(entry, "deploy") != nullptr ? test : DeployedNet(entry, test));
  const NetCounts counts = CountsOf(deployed);
  expected.parameters = train.parameters;
  expected.statistics = train.statistics;
  expected.deployed_parameters = counts.parameters;
  expected.macs = counts.macs / check.batch();
  expected.input.clear();
  for (const DataLayer& data : deployed.data) {
    for (size_t i = 0; i < data.tops.size(); ++i) {
      const std::vector<int64_t> dims(data.types[i].shape.dims().begin(), data.types[i].shape.dims().end());
      const bool is_sample = dims.size() > 1 && dims[0] == check.batch();
      const Shape shape = is_sample ? Shape(std::vector<int64_t>(dims.begin() + 1, dims.end())) : Shape(dims);
      expected.input += StrCat(expected.input.empty() ? "" : ", ", data.tops[i], " ", shape.ToString());
    }
  }
}

std::vector<CheckResult> CheckCounts(const CheckContext& context) {
  const ModelCard& card = context.entry.card;
  Expected found;
  MeasureCounts(context.entry, found);
  std::vector<std::string> wrong;
  if (!card.has_parameters()) wrong.push_back(StrCat("the card does not say its parameters, ", found.parameters));
  if (card.has_parameters()) CompareCount("parameters", card.parameters(), found.parameters, "the card", wrong);
  if (card.has_statistics() || found.statistics > 0)
    CompareCount("statistics", card.statistics(), found.statistics, "the card", wrong);
  if (card.has_macs()) CompareCount("multiply-adds", card.macs(), found.macs, "the card", wrong);
  if (context.expected) {
    const Expected& file = *context.expected;
    CompareCount("parameters", file.parameters, found.parameters, kExpectedFile, wrong);
    CompareCount("statistics", file.statistics, found.statistics, kExpectedFile, wrong);
    CompareCount("deployed parameters", file.deployed_parameters, found.deployed_parameters, kExpectedFile, wrong);
    CompareCount("multiply-adds", file.macs, found.macs, kExpectedFile, wrong);
    if (file.input != found.input)
      wrong.push_back(StrCat("input: ", kExpectedFile, " says ", file.input, ", the net has ", found.input));
  } else {
    wrong.push_back(StrCat("there is no ", kExpectedFile, " (--update writes it)"));
  }
  return {StaticVerdict(
      "counts", wrong,
      StrCat(found.parameters, " parameters, ", found.statistics, " statistics, ", found.macs, " multiply-adds"))};
}

std::vector<CheckResult> CheckReadme(const CheckContext& context) {
  const fs::path file = context.entry.folder / "README.md";
  const std::string text = ReadFile(file);
  if (text == WithTable(text, EntryTable({context.entry, context.expected}), file.string()))
    return {Holds("readme", "its table is that of the card")};
  return {Fails("readme", StrCat("the table in ", file.string(),
                                 " is not that of the card and expected.json (--update writes it)"))};
}

}  // namespace moka

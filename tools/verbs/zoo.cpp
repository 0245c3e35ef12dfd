// moka zoo list|info|train|verify (pack is in zoo_pack.cpp): the models of models/, what is known of them, and whether
// it is true.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/standard_streams.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/models_folder.h"
#include "tools/verbs/train.h"
#include "tools/zoo/checks.h"
#include "tools/zoo/entry.h"
#include "tools/zoo/pack.h"
#include "tools/zoo/rows.h"
#include "tools/zoo/tables.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using VerifyJson = nlohmann::ordered_json;

const std::string& OneName(const Arguments& arguments, std::string_view verb) {
  if (arguments.positionals.size() == 1) return arguments.positionals[0];
  throw Error(ErrorKind::kUsage, {}, StrCat("moka zoo ", verb, " wants one model's name"), "moka zoo list shows them");
}

int RunZooList(const Arguments& arguments) {
  const std::vector<ZooRow> rows = ReadRows(ModelsFolder(arguments));
  arguments.RefuseUnread({"json", "markdown"});
  if (arguments.Has("json")) {
    for (const ZooRow& row : rows) PrintJsonText(RowJson(row));
  } else if (arguments.Has("markdown")) {
    PrintLines(ZooTable(rows).substr(1));
  } else {
    PrintLines(ListText(rows));
  }
  return 0;
}

int RunZooInfo(const Arguments& arguments) {
  const ZooRow row = ReadRow(ModelsFolder(arguments), OneName(arguments, "info"));
  arguments.RefuseUnread({"json"});
  arguments.Has("json") ? PrintJsonText(InfoJson(row)) : PrintLines(InfoText(row));
  return 0;
}

// All that `moka train` takes goes on to it, behind the recipe's own.
int RunZooTrain(const Arguments& arguments) {
  const ZooEntry entry = ReadEntry(ModelsFolder(arguments), OneName(arguments, "train"));
  const ZooRecipe& recipe = entry.card.recipe(0);
  const std::vector<std::string> missing = MissingData(ReadRecipe(entry, recipe, arguments.overrides));
  if (!missing.empty()) {
    const std::vector<std::string> commands = DataCommands(entry);
    for (const std::string& command : commands) Print("{}\n", command);
    throw Error(
        ErrorKind::kNoInput, {}, StrCat(entry.name, "'s data is not there: ", missing.front()),
        commands.empty() ? "its card does not say how it is made" : StrCat("make it: ", Join(commands, " && ")));
  }
  std::vector<std::string> words = TrainingWords(entry, recipe, arguments.overrides);
  std::vector<OptionSpec> specs = TrainVerb().options;
  specs.insert(specs.end(), CommonOptions().begin(), CommonOptions().end());
  for (const OptionSpec& spec : specs) {
    if (!arguments.Has(spec.name)) continue;
    const bool has_value = !spec.value.empty() && !arguments.Get(spec.name).empty();  // --resume may be alone
    words.push_back(StrCat("--", spec.name, has_value ? "=" + arguments.Get(spec.name) : std::string()));
  }
  if (!arguments.Has("run")) words.push_back(StrCat("--run=", entry.name));
  return RunTraining(words);
}

// Prints results as they come and counts them.
class CheckPrinter {
 public:
  explicit CheckPrinter(bool is_json) : is_json_(is_json) {}

  void Print(const std::string& model, Tier tier, const CheckResult& result) {
    ++counts_[static_cast<size_t>(result.verdict)];
    constexpr std::array<const char*, 3> kWords = {"ok", "FAILED", "skipped"};
    const char* word = kWords[static_cast<size_t>(result.verdict)];
    if (is_json_) {
      const VerifyJson json = {{"model", model},
                               {"tier", TierName(tier)},
                               {"check", result.check},
                               {"verdict", word},
                               {"text", result.text}};
      PrintJson(json, -1);
    } else {
      moka::Print("{:<8}{:<22} {:<8} {:<10} {}\n", word, model, TierName(tier), result.check, result.text);
    }
    FlushStandardOutput();
  }

  int Finish(size_t models) const {
    const auto [holds, fails, skipped] = counts_;
    if (!is_json_) {
      moka::Print("{} {}: {} checks hold, {} fail, {} skipped\n", models, models == 1 ? "model" : "models", holds,
                  fails, skipped);
    }
    return fails == 0 ? 0 : static_cast<int>(ErrorKind::kVerification);
  }

 private:
  bool is_json_;
  std::array<int, 3> counts_{};  // by verdict
};

std::string OneLineOf(const Error& error) {
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

void RunEntryCheck(const EntryCheck& check, const CheckContext& context, CheckPrinter& printer) {
  std::vector<CheckResult> results;
  for (const std::string& name : check.names) {
    if (const ZooSkip* skip = SkipOf(context.entry, name); skip != nullptr)
      results.push_back(Skipped(name, skip->reason()));
  }
  const std::vector<CheckResult> skipped = results;
  if (skipped.size() < check.names.size()) {
    try {
      for (CheckResult& result : check.run(context)) {
        const bool is_skipped = std::ranges::find(skipped, result.check, &CheckResult::check) != skipped.end();
        if (!is_skipped) results.push_back(std::move(result));
      }
    } catch (const Error& error) {
      results.push_back(Fails(check.names.front(), OneLineOf(error)));
    }
  }
  for (const CheckResult& result : results) printer.Print(context.entry.name, check.tier, result);
}

// expected.json and the README's table, as they are now. A README without a place for it is left to the check.
void UpdateEntry(CheckContext& context, bool with_runs) {
  context.expected = Measure(context.entry, context.expected, with_runs);
  WriteExpected(*context.expected, context.entry.folder);
  UpdateEntryReadme({context.entry, context.expected});
}

void VerifyEntry(const fs::path& models, const std::string& name, Tier tier, const Arguments& arguments,
                 CheckPrinter& printer) {
  CheckContext context{{name, models / name, {}}, std::nullopt, arguments.Get("runs", "runs")};
  try {
    context.entry = ReadEntry(models, name);
    context.expected = ReadExpected(context.entry.folder);
    if (arguments.Has("update")) UpdateEntry(context, tier >= Tier::kFast);
  } catch (const Error& error) {
    return printer.Print(name, Tier::kStatic, Fails("card", OneLineOf(error)));
  }
  for (const EntryCheck& check : AllEntryChecks()) {
    // The release's training says all that the nightly one does.
    const bool is_covered = tier == Tier::kRelease && check.names.front() == "short_run";
    if (check.tier <= tier && !is_covered) RunEntryCheck(check, context, printer);
  }
}

// The table of all models.
void VerifyTable(const fs::path& models, bool updates, CheckPrinter& printer) {
  CheckResult result = Holds("readme", "its table is that of the cards");
  try {
    if (!HasZooTable(models, updates)) {
      const std::string file = (models / "README.md").string();
      result = Fails("readme", StrCat("the table in ", file, " is not that of the cards (--update writes it)"));
    }
  } catch (const Error& error) {
    result = Fails("readme", OneLineOf(error));
  }
  printer.Print("(all)", Tier::kStatic, result);
}

// Tells how much all models carry together.
void VerifyTotal(const fs::path& models, CheckPrinter& printer) {
  try {
    const int64_t bytes = ZooBytes(models);
    const std::string text = StrCat(BytesText(bytes), " in all models, of at most ", BytesText(kMostZooBytes));
    printer.Print("(all)", Tier::kStatic, bytes <= kMostZooBytes ? Holds("weights", text) : Fails("weights", text));
  } catch (const Error& error) {
    printer.Print("(all)", Tier::kStatic, Fails("weights", OneLineOf(error)));
  }
}

int RunZooVerify(const Arguments& arguments) {
  const fs::path models = ModelsFolder(arguments);
  const Tier tier = TierNamed(arguments.Get("tier", "fast"));
  std::vector<std::string> names = arguments.positionals;
  if (arguments.Has("all") != names.empty()) {
    throw Error(ErrorKind::kUsage, {}, "moka zoo verify wants names of models, or --all", "moka zoo list shows them");
  }
  if (arguments.Has("all")) names = ModelNames(models);
  for (std::string& name : names) name = EntryNameOf(models, name);
  CheckPrinter printer(arguments.Has("json"));
  for (const std::string& name : names) VerifyEntry(models, name, tier, arguments, printer);
  if (arguments.Has("all")) {
    VerifyTable(models, arguments.Has("update"), printer);
    VerifyTotal(models, printer);
  }
  return printer.Finish(names.size());
}

OptionSpec ModelsOption() {
  return {"models", "DIR", "where the models are (default ./models, or those it came with)"};
}

}  // namespace

Verb ZooListVerb() {
  Verb verb;
  verb.name = "list";
  verb.under = "zoo";
  verb.summary = "all models: task, parameters, multiply-adds, status, result";
  verb.usage = "[--json|--markdown]";
  verb.examples = {"moka zoo list", "moka zoo list --json"};
  verb.options = {
      {"json", "", "one JSON object a model"}, {"markdown", "", "the table of models/README.md"}, ModelsOption()};
  verb.run = RunZooList;
  return verb;
}

Verb ZooInfoVerb() {
  Verb verb;
  verb.name = "info";
  verb.under = "zoo";
  verb.summary = "everything that is known of a model";
  verb.usage = "NAME";
  verb.examples = {"moka zoo info resnet50", "moka zoo info lenet --json"};
  verb.options = {{"json", "", "the card in full, as JSON"}, ModelsOption()};
  verb.run = RunZooInfo;
  return verb;
}

Verb ZooTrainVerb() {
  Verb verb;
  verb.name = "train";
  verb.under = "zoo";
  verb.summary = "train a model by its first recipe; says how its data is made where it is not there";
  verb.usage = "NAME [key=value ...] [flags of moka train]";
  verb.examples = {"moka zoo train lenet", "moka zoo train lenet --seed 2 --run lenet-2"};
  verb.options = {ModelsOption()};
  for (const OptionSpec& option : TrainVerb().options) {
    if (option.name != "solver") verb.options.push_back(option);
  }
  verb.run = RunZooTrain;
  verb.takes_fields = TakenFields::kOfSolver;
  return verb;
}

Verb ZooVerifyVerb() {
  Verb verb;
  verb.name = "verify";
  verb.under = "zoo";
  verb.summary = "whether models are what their cards say; a line a check, exit 22 if one fails";
  verb.usage = "NAME ...|--all [--tier static|fast|nightly|release] [--update]";
  verb.examples = {"moka zoo verify --all --tier static", "moka zoo verify lenet",
                   "moka zoo verify lenet --update   (after a change: writes expected.json and the README's table)"};
  verb.options = {{"all", "", "every model, and the table of all"},
                  {"tier", "TIER", "static, fast (default), nightly or release; each takes in those before it"},
                  {"update", "", "write expected.json and the README's table first"},
                  {"runs", "FOLDER", "where trainings of nightly and release go (default runs)"},
                  {"json", "", "one JSON object a check"},
                  ModelsOption()};
  for (const EntryCheck& check : AllEntryChecks()) {
    verb.operands.emplace_back(StrCat(TierName(check.tier), ": ", Join(check.names, ", ")), std::string(check.doc));
  }
  verb.run = RunZooVerify;
  return verb;
}

Verb ZooVerb() {
  Verb verb;
  verb.name = "zoo";
  verb.summary = "list, inspect, train, verify and pack the models that come with it";
  verb.usage = "list | info NAME | train NAME | verify NAME | pack RUN NAME [--flags]";
  verb.examples = {"moka zoo list", "moka zoo info lenet", "moka zoo verify --all --tier static"};
  return verb;
}

}  // namespace moka

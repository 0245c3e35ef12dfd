// The union of the blobs of all nets that the entry has (trained, tested, deployed) is written once into a copy of the
// entry, tested from there as others will read it, and only then put into the entry with its row in the card.
#include "tools/zoo/pack.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/size.h"
#include "core/text.h"
#include "data/layer_fields.h"
#include "data/pipeline/text_layers.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/trained_weights.h"
#include "optim/run/report.h"
#include "optim/run/target.h"
#include "optim/step/test_net.h"
#include "proto/nets/model_card.h"
#include "proto/text/text_format.h"
#include "proto/weights/weights.h"
#include "tools/cli/command_line.h"
#include "tools/infer/source.h"
#include "tools/infer/translate.h"
#include "tools/measure/made_up_data.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/run_json.h"
#include "tools/nets/zoo_weights.h"
#include "tools/train/record_sizes.h"
#include "tools/zoo/checks.h"
#include "tools/zoo/net_values.h"
#include "tools/zoo/rows.h"
#include "tools/zoo/tables.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabels = "labels.txt";

// The entry as it will be, in a hidden folder of it that goes with this scope: tested before the entry changes.
class StagedEntry {
 public:
  explicit StagedEntry(const ZooEntry& entry) : entry_(entry) {
    entry_.folder = entry.folder / ".pack";
    std::error_code code;
    fs::remove_all(entry_.folder, code);
    CreateFolders(entry_.folder);
    for (const fs::directory_entry& each : fs::directory_iterator(entry.folder)) {
      if (!each.is_regular_file(code) || each.path().filename() == kZooWeightsFile) continue;
      WriteFileAtomically(entry_.folder / each.path().filename(), ReadFile(each.path()));
    }
  }
  StagedEntry(const StagedEntry&) = delete;
  StagedEntry& operator=(const StagedEntry&) = delete;
  ~StagedEntry() {
    std::error_code code;
    fs::remove_all(entry_.folder, code);
  }
  const ZooEntry& entry() const { return entry_; }
  fs::path path(const std::string& file) const { return entry_.folder / file; }

 private:
  ZooEntry entry_;
};

const ZooRecipe& RecipeOf(const ZooEntry& entry, const std::string& solver) {
  std::vector<std::string> names;
  for (const ZooRecipe& recipe : entry.card.recipe()) {
    if (recipe.solver() == solver && recipe.override_size() == 0) return recipe;
    if (recipe.override_size() == 0) names.push_back(recipe.solver());
  }
  throw Error(ErrorKind::kNoInput, {},
              StrCat("no recipe of ", entry.name, " is ", Printable(solver), " without overrides"),
              DidYouMean(solver, names));
}

// Blobs of every net of the entry, each layer once; layers that nothing but borrows blobs from others are left out.
std::vector<NetBlob> BlobsOf(const ZooEntry& entry, const RecipeNets& recipe) {
  const ZooCheck& check = entry.card.check();
  std::vector<NetParameter> nets = TrainNetsOf(recipe);
  nets.insert(nets.end(), recipe.nets.tests.begin(), recipe.nets.tests.end());
  for (NetParameter& net : nets) net = WithMadeUpData(net, check, check.batch());
  if (!recipe.nets.tests.empty() && SkipOf(entry, "deploy") == nullptr)
    nets.push_back(DeployedNet(entry, WithMadeUpData(recipe.nets.tests[0], check, check.batch())));
  std::vector<NetBlob> blobs;
  std::set<std::string> taken;
  for (const NetParameter& net : nets) {
    const BuiltNet built = BuildAsIs(net);
    std::map<std::string, bool> owns;
    for (const NetBlob& blob : built.blobs) owns[blob.layer] |= !blob.shared;
    std::set<std::string> added;
    for (const NetBlob& blob : built.blobs) {
      if (!owns[blob.layer] || taken.contains(blob.layer)) continue;
      blobs.push_back(blob);
      added.insert(blob.layer);
    }
    taken.merge(added);
  }
  return blobs;
}

std::vector<NamedBlob> TrainedBlobs(const std::vector<NetBlob>& blobs, const fs::path& weights) {
  ParameterStore store;
  for (const NetBlob& blob : blobs) {
    if (!store.Has(blob.name)) store.Add(blob.name, blob.shape);
  }
  LoadTrainedWeights(weights.string(), blobs, store);
  return WeightsOf(blobs, store);
}

// The files of a run's config/ that inference reads beside weights: names of classes, sizes of records, words, means.
std::vector<std::string> FilesBeside(const RecipeNets& recipe, const fs::path& config) {
  std::set<std::string> names = {kLabels, kRecordSizesFile};
  for (const NetParameter& net : recipe.nets.tests) {
    for (const LayerParameter& layer : net.layer()) {
      for (const LayerVocabulary& words : VocabulariesOf(layer)) names.insert(words.copy);
      if (layer.bottom_size() > 0) continue;
      const std::string mean = PictureFieldsOf(layer).mean_file();
      if (!mean.empty()) names.insert(fs::path(mean).filename().string());
    }
  }
  std::erase_if(names, [&](const std::string& name) {
    std::error_code code;
    return !fs::is_regular_file(config / name, code);
  });
  return {names.begin(), names.end()};
}

// The card's text with this row in place of the one that it has of the folder's own weights. Errors: kConfig where that
// stands in it as only a person writes it.
std::string WithRow(const std::string& text, const ZooWeights& row, const std::string& file) {
  std::vector<std::string> lines = Split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  const std::string own = StrCat("  file: \"", kZooWeightsFile, "\"");
  const auto line = std::ranges::find(lines, own);
  if (line != lines.end() && line != lines.begin() && *(line - 1) == "weights {") {
    const auto end = std::find(line, lines.end(), "}");
    if (end != lines.end()) lines.erase(line - 1, end + 1);
  }
  ModelCard added;
  *added.add_weights() = row;
  std::string changed = StrCat(Join(lines, "\n"), "\n", ToText(added));
  ModelCard card;
  ParseText(changed, file, card);
  const auto is_own = [](const ZooWeights& each) { return each.file() == kZooWeightsFile; };
  if (std::ranges::count_if(card.weights(), is_own) == 1) return changed;
  throw Error(ErrorKind::kConfig, {}, StrCat(file, " has a row weights { ... } of ", kZooWeightsFile, " already"),
              "take it out: one that is written by hand is not changed");
}

struct Trial {
  std::optional<WeightsTest> float32;
  std::optional<WeightsTest> float16;
  bool is_half = false;
};

// Errors: kVerification where float16 is asked for and loses more than it may.
Trial TryNumbers(const ZooEntry& entry, const ZooRecipe& recipe, const NetParameter& test, const PackOptions& options,
                 const fs::path& full, const fs::path& half) {
  Trial trial;
  trial.is_half = options.numbers == PackOptions::Numbers::kFloat16;
  if (!options.is_tested) return trial;
  trial.float32 = TestWeights(entry, recipe, full);
  if (options.numbers == PackOptions::Numbers::kFloat32) return trial;
  trial.float16 = TestWeights(entry, recipe, half);
  const double change = trial.float16->value - trial.float32->value;
  const double loss = IsSmallerBetter(recipe, test) ? change : -change;
  const bool holds = loss <= options.most_loss * std::abs(trial.float32->value);
  if (trial.is_half && !holds) {
    throw Error(ErrorKind::kVerification, {},
                StrCat(recipe.metric(), " is ", ToText(trial.float16->value), " by float16 and ",
                       ToText(trial.float32->value), " by float32"),
                StrCat("--most-loss allows a part of ", ToText(options.most_loss), "; --dtype float32 keeps all"));
  }
  trial.is_half = holds;
  return trial;
}

ZooWeights RowOf(const ZooEntry& entry, const ZooRecipe& recipe, const Trial& trial, const fs::path& file,
                 const std::string& source) {
  ZooWeights row;
  row.set_file(kZooWeightsFile);
  row.set_sha256(Sha256OfFile(file));
  row.set_bytes(static_cast<int64_t>(fs::file_size(file)));
  row.set_format("safetensors");
  row.set_source(source);
  row.set_dtype(trial.is_half ? "float16" : "float32");
  if (recipe.solver() != "solver.prototxt") row.set_solver(recipe.solver());
  const std::optional<WeightsTest>& test = trial.is_half ? trial.float16 : trial.float32;
  if (!test) return row;
  row.set_metric(recipe.metric());
  row.set_value(test->value);
  if (entry.card.data_size() > 0) row.set_data(entry.card.data(0).name());
  if (test->samples > 0) row.set_samples(test->samples);
  return row;
}

// "trained here, seed 1, moka 0.1.0".
std::string SourceText(const fs::path& run) {
  const nlohmann::ordered_json json = JsonObjectIn(run / "run.json");
  std::string text = "trained here";
  for (const char* key : {"seed", "version"}) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    const std::string value = found->is_string() ? found->get<std::string>() : found->dump();
    text += StrCat(", ", key == std::string_view("seed") ? "seed " : "moka ", value);
  }
  return text;
}

void CheckTotal(const fs::path& models, const std::string& name, int64_t bytes) {
  const int64_t others = ZooBytes(models, name);
  if (others + bytes <= kMostZooBytes) return;
  throw Error(ErrorKind::kVerification, {},
              StrCat("the weights have ", BytesText(bytes), ", and those of other models ", BytesText(others)),
              StrCat("all together may have ", BytesText(kMostZooBytes)));
}

}  // namespace

bool IsSmallerBetter(const ZooRecipe& recipe, const NetParameter& test) {
  if (recipe.has_smaller_is_better()) return recipe.smaller_is_better();
  const std::string& metric = recipe.metric();
  if (FallsToItsTarget(metric)) return true;
  return std::ranges::any_of(test.layer(), [&](const LayerParameter& layer) {
    return TraitsOf(layer).is_loss && layer.top_size() > 0 && layer.top(0) == metric;
  });
}

WeightsTest TestWeights(const ZooEntry& entry, const ZooRecipe& recipe, const fs::path& weights) {
  if (recipe.metric() == "BLEU" && entry.card.task() == ModelCard::TRANSLATE) {
    const Verb& infer = *FindVerb(AllVerbs(), "infer");
    return {BleuOfTestPairs(
                InferSourceOf(ParseArguments(infer, {entry.folder.string(), StrCat("--weights=", weights.string())}))),
            0};
  }
  const RecipeNets nets = ReadRecipe(entry, recipe);
  TestOptions options;
  options.evaluation = Evaluation::kDetection;
  options.precision_rule = PrecisionRuleNamed(nets.solver.ap_version());
  ParameterStore store;
  TestNet net(nets.nets.tests.at(0), options, store);
  LoadTrainedWeights(weights.string(), net.blobs(), store);
  const int64_t records = net.feed().epoch_size();
  const int64_t batch = std::max<int64_t>(1, net.feed().batch_size());
  const int64_t batches = records > 0 ? BatchesOfData(net.feed()) : nets.solver.test_iter(0);
  const Metrics metrics = MetricsOf(net.Run(batches));
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) {
    if (name == recipe.metric()) return {value, records > 0 ? records : batches * batch};
    names.push_back(name);
  }
  throw Error(ErrorKind::kConfig, {},
              StrCat("the test net of ", entry.name, " has no \"", recipe.metric(), "\", and its recipe names it"),
              StrCat("it has ", Join(names, ", "), "; --untested packs weights without a metric"));
}

int64_t ZooBytes(const fs::path& models, const std::string& except) {
  int64_t bytes = 0;
  for (const std::string& name : ModelNames(models)) {
    const ModelCard card = ModelCardOf(models / name);
    if (const ZooWeights* row = OwnWeightsOf(card); row != nullptr && name != except) bytes += row->bytes();
  }
  return bytes;
}

Packed PackWeights(const std::string& run, const std::string& name, const PackOptions& options) {
  const ZooEntry entry = ReadEntry(options.models, name);
  const ZooRecipe& recipe = RecipeOf(entry, options.solver);
  const fs::path checkpoint = FindCheckpoint(run, options.runs);
  const fs::path folder = FindNamedRun(run, options.runs)->folder;
  const RecipeNets nets = ReadRecipe(entry, recipe);
  if (nets.nets.tests.empty()) {
    throw Error(ErrorKind::kConfig, {}, StrCat(entry.name, ": ", recipe.solver(), " tests nothing"),
                "give test_iter, so that the metric can be measured");
  }
  if (const std::vector<std::string> missing = MissingData(nets); options.is_tested && !missing.empty()) {
    const std::vector<std::string> commands = DataCommands(entry);
    throw Error(
        ErrorKind::kNoInput, {}, StrCat(entry.name, "'s data is not there: ", missing.front()),
        commands.empty() ? "--untested packs weights without a metric" : StrCat("make it: ", Join(commands, " && ")));
  }
  const std::vector<NamedBlob> blobs = TrainedBlobs(BlobsOf(entry, nets), checkpoint);
  std::map<std::string, std::string> metadata = {{"model", entry.name}};
  AddNetToMetadata(nets.nets.tests[0], metadata);
  const StagedEntry staged(entry);
  const fs::path full = staged.path(StrCat(kZooWeightsFile, ".float32"));
  const fs::path half = staged.path(StrCat(kZooWeightsFile, ".float16"));
  WriteSafetensors(full, blobs, metadata);
  WriteSafetensors(half, blobs, metadata, StoredNumbers::kFloat16);
  // The test reads the words and names that the weights were trained with, which the entry may have of another run.
  const std::vector<std::string> beside = FilesBeside(nets, folder / "config");
  for (const std::string& file : beside) WriteFileAtomically(staged.path(file), ReadFile(folder / "config" / file));
  const Trial trial = TryNumbers(staged.entry(), recipe, nets.nets.tests[0], options, full, half);
  const fs::path& chosen = trial.is_half ? half : full;
  Packed packed{.model = entry.name, .row = RowOf(entry, recipe, trial, chosen, SourceText(folder))};
  CheckTotal(options.models, entry.name, packed.row.bytes());
  if (trial.float32) packed.float32 = trial.float32->value;
  if (trial.float16) packed.float16 = trial.float16->value;
  for (const std::string& name_beside : beside) {
    ZooFile& file = *packed.row.add_beside();
    file.set_file(name_beside);
    file.set_sha256(Sha256OfFile(staged.path(name_beside)));
    packed.files.push_back(name_beside);
  }
  const fs::path card = entry.folder / kModelCardFile;
  const std::string text = WithRow(ReadTextFile(card, "a model's card"), packed.row, card.string());
  for (const fs::path& readme : {entry.folder / "README.md", options.models / "README.md"})
    (void)WithTable(ReadTextFile(readme, "a README"), "", readme.string());
  // Nothing is refused from here on.
  for (const std::string& file : beside) fs::rename(staged.path(file), entry.folder / file);
  fs::rename(chosen, entry.folder / kZooWeightsFile);
  WriteFileAtomically(card, text);
  packed.files.insert(packed.files.begin(), {kZooWeightsFile, std::string(kModelCardFile)});
  UpdateEntryReadme(ReadRow(options.models, entry.name));
  HasZooTable(options.models, true);
  return packed;
}

}  // namespace moka

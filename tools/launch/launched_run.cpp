// Checks the words behind -- as the verb itself would, so that a mistake is told once and not by every rank.
#include "tools/launch/launched_run.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/train/overrides.h"
#include "tools/train/train_setup.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Errors: kUsage with the nearest name.
const Verb& VerbToLaunch(const std::vector<Verb>& verbs, const std::string& name) {
  if (const Verb* verb = FindVerb(verbs, name)) return *verb;
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  throw Error(ErrorKind::kUsage, {}, StrCat("no verb \"", Printable(name), "\" in moka to launch"),
              DidYouMean(name, names));
}

bool WantsGpus(const Arguments& arguments) {
  return arguments.Has("gpu") || arguments.Get("device").starts_with("gpu");
}

const OptionSpec* FindOption(const Verb& verb, const std::string& name) {
  for (const std::vector<OptionSpec>* options : {&verb.options, &CommonOptions()}) {
    const auto it = std::ranges::find(*options, name, &OptionSpec::name);
    if (it != options->end()) return &*it;
  }
  return nullptr;
}

// Whether a run was started with the overrides of these words.
bool IsRunOf(const fs::path& run, const Arguments& arguments) {
  const std::vector<std::string> overrides = OverridesOf(arguments);
  const fs::path file = run / "config" / "overrides.txt";
  std::error_code code;
  const std::string used = fs::exists(file, code) ? ReadFile(file) : "";
  return used == (overrides.empty() ? "" : Join(overrides, "\n") + "\n");
}

// "--name=value", or "--name" for a switch.
std::string FlagText(const Verb& verb, const std::string& name, const std::string& value) {
  const OptionSpec* option = FindOption(verb, name);
  const bool is_switch = option != nullptr && option->value.empty();
  return StrCat("--", name, is_switch || value.empty() ? "" : "=" + value);
}

}  // namespace

LaunchedVerb ReadLaunchedVerb(const std::vector<std::string>& words) {
  if (words.empty()) {
    throw Error(ErrorKind::kUsage, {}, "missing after --: what each rank runs",
                "moka launch -n 4 -- train models/lenet");
  }
  const Verb* verb = &VerbToLaunch(AllVerbs(), words[0]);
  size_t used = 1;
  while (!verb->subverbs.empty() && used < words.size()) verb = &VerbToLaunch(verb->subverbs, words[used++]);
  LaunchedVerb launched;
  launched.words = words;
  launched.is_training = words[0] == "train";
  const Arguments arguments = ParseArguments(*verb, {words.begin() + static_cast<std::ptrdiff_t>(used), words.end()});
  launched.uses_gpus = WantsGpus(arguments);
  if (!launched.is_training) return launched;
  const RunChoice choice = ChooseRun(arguments);
  launched.arguments = arguments;
  launched.run_name = choice.name;
  launched.runs = arguments.Get("runs", "runs");
  if (launched.run_name.empty() && choice.resumed.empty())
    throw Error(ErrorKind::kUsage, {}, "missing argument: a solver.prototxt or a folder with one",
                "moka launch -n 4 -- train models/lenet");
  if (!choice.resumed.empty()) {
    launched.runs = choice.resumed.parent_path();
    const std::string folder = choice.resumed.filename().string();
    launched.run_name = folder.substr(0, folder.rfind('-'));
    if (arguments.Get("resume") == "auto" && IsRunOf(choice.resumed, arguments))
      launched.words = ResumingWords(launched, choice.resumed);
  }
  return launched;
}

RunWatch::RunWatch(const LaunchedVerb& verb) : runs_(verb.runs), prefix_(verb.run_name + "-"), before_(Look()) {}

std::map<fs::path, fs::file_time_type> RunWatch::Look() const {
  std::map<fs::path, fs::file_time_type> times;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs_, code)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink(code) || !name.starts_with(prefix_) || name.size() != prefix_.size() + 4) continue;
    const fs::file_time_type time = fs::last_write_time(entry.path() / "run.json", code);
    if (!code) times[entry.path()] = time;
  }
  return times;
}

std::optional<fs::path> RunWatch::Find() const {
  std::optional<fs::path> found;
  fs::file_time_type newest;
  for (const auto& [folder, time] : Look()) {
    const auto it = before_.find(folder);
    if (it != before_.end() && it->second == time) continue;
    if (found && time <= newest) continue;
    found = folder;
    newest = time;
  }
  return found;
}

bool HasCheckpoint(const fs::path& run) {
  std::error_code code;
  return fs::is_directory(run / "checkpoints", code) && !ListFiles(run / "checkpoints", ".sha256").empty();
}

std::vector<std::string> ResumingWords(const LaunchedVerb& verb, const fs::path& run) {
  static const std::set<std::string> in_the_run = {"solver", "weights",    "snapshot", "resume",   "from",
                                                   "run",    "iterations", "seed",     "precision"};
  std::vector<std::string> words = {"train", "--resume=" + run.string()};
  const Verb& train = *FindVerb(AllVerbs(), "train");
  for (const auto& [name, value] : verb.arguments.options) {
    if (!in_the_run.contains(name)) words.push_back(FlagText(train, name, value));
  }
  return words;
}

std::vector<std::string> RequeuedWords(const LaunchedVerb& verb, const std::string& suffix) {
  const std::string resumed = verb.arguments.Get("resume");
  if (!verb.is_training || (!resumed.empty() && resumed != "auto")) return verb.words;
  std::vector<std::string> words = {"train"};
  const Verb& train = *FindVerb(AllVerbs(), "train");
  for (const std::string& word : verb.arguments.positionals) words.push_back(word);
  for (const std::string& word : verb.arguments.overrides) words.push_back(word);
  for (const auto& [name, value] : verb.arguments.options) {
    if (name != "run" && name != "resume") words.push_back(FlagText(train, name, value));
  }
  words.push_back(StrCat("--run=", verb.run_name, suffix));
  words.push_back("--resume=auto");
  return words;
}

}  // namespace moka

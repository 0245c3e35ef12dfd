// moka bench accuracy: trains to a target with several seeds, settings and peers by turns, and says how long it took on
// MLPerf's clock.
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/overrides.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/version.h"
#include "tools/launch/child.h"
#include "tools/measure/accuracy_bench.h"
#include "tools/measure/accuracy_report.h"
#include "tools/measure/machine.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/train/overrides.h"
#include "tools/verbs/accuracy_turns.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPeersProgram = "tools/bench/peers/to_target.py";
constexpr const char* kPeersPython = "build/peers/bin/python";
// Flags of `moka train` that are passed on, here or in a setting.
constexpr std::array kPassed = {"data-threads", "device", "gpu", "kernels", "precision", "ranks", "threads", "weights"};
// Those that leave the recipe as it is.
constexpr std::array kOfTheMachine = {"data-threads", "kernels", "threads"};

AccuracyTarget TargetOf(const Arguments& arguments) {
  if (!arguments.Has("target"))
    throw Error(ErrorKind::kUsage, {}, "missing: what is trained for", "--target accuracy=0.9");
  const std::string text = arguments.Get("target");
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorKind::kUsage, {}, StrCat("--target wants NAME=VALUE, found \"", Printable(text), "\""),
                "the name is an output of the test net: --target accuracy=0.9");
  }
  constexpr double kMost = 1e30;
  return {.metric = text.substr(0, equals),
          .value = NumberOfFlag("target", std::string_view(text).substr(equals + 1), -kMost, kMost)};
}

// Splits at a sign, but not inside of quotes, which stay. Errors: kUsage for a quote that is not closed.
std::vector<std::string> SplitOutsideQuotes(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  char quote = '\0';
  for (const char c : text) {
    if (quote == '\0' && c == separator) {
      parts.emplace_back();
      continue;
    }
    if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    }
    parts.back() += c;
  }
  if (quote != '\0') throw Error(ErrorKind::kUsage, StrCat("a quote is not closed: ", Printable(text)));
  std::erase_if(parts, [](const std::string& part) { return Trim(part).empty(); });
  return parts;
}

// Errors: kUsage for a field that every training of the bench is given.
void RefuseOwnFields(const std::string& word) {
  for (const auto& [field, flag] :
       {std::pair("random_seed", "seeds"), {"target_metric", "target"}, {"target_value", "target"}}) {
    if (PathOfOverride(word) != field) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat(Printable(word), " has no use here: --", flag, " sets ", field));
  }
}

// A word of --setting: an override, or a flag that is passed on. Errors: kUsage.
void CheckWord(const std::string& name, const std::string& word) {
  if (IsOverride(word)) return RefuseOwnFields(word);
  std::vector<std::string> flags = {"--pin"};
  flags.reserve(kPassed.size() + 1);
  for (const char* flag : kPassed) flags.push_back(StrCat("--", flag));
  const std::string flag = word.substr(0, word.find('='));
  if (word.find('=') != std::string::npos && std::ranges::find(flags, flag) != flags.end()) return;
  const std::string meant = DidYouMean(flag, flags);
  throw Error(ErrorKind::kUsage, {},
              StrCat("--setting \"", Printable(name), "\": \"", Printable(word),
                     "\" is neither key=value nor a flag of a training"),
              meant.empty() ? StrCat("flags are --FLAG=VALUE, of ", Join(flags, ", ")) : meant);
}

struct NamedWords {
  std::string name;
  std::vector<std::string> words;
};

// The settings of --setting 'NAME: key=value ...; NAME: ...'. Errors: kUsage.
std::vector<NamedWords> ParseSettings(const std::string& list) {
  std::vector<NamedWords> settings;
  for (const std::string& text : SplitOutsideQuotes(list, ';')) {
    const size_t colon = text.find(':');
    const std::string name(Trim(std::string_view(text).substr(0, colon)));
    const bool is_name = name.find_first_of("= \"'") == std::string::npos;
    if (colon == std::string::npos || name.empty() || !is_name) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--setting wants 'NAME: key=value ...', found \"", Printable(Trim(text)), "\""),
                  "--setting 'slow: base_lr=0.01' --setting 'fast: base_lr=0.1'");
    }
    NamedWords setting{.name = name, .words = SplitOutsideQuotes(text.substr(colon + 1), ' ')};
    for (const std::string& word : setting.words) CheckWord(name, word);
    settings.push_back(std::move(setting));
  }
  if (settings.empty()) settings.emplace_back();
  return settings;
}

// "lenet" for models/lenet, "solver_12epoch" for a file of another name than solver.prototxt.
std::string ModelName(const std::string& word) {
  const fs::path path = fs::absolute(word).lexically_normal();
  if (path.filename() == "solver.prototxt") return path.parent_path().filename().string();
  if (path.extension() == ".prototxt") return path.stem().string();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// The checksum of a solver and its nets with the overrides among the words.
std::string ChecksumOf(const std::string& model, const std::vector<std::string>& words) {
  const QuietScope quiet;  // the training tells what it warns of
  std::vector<std::string> overrides = words;
  std::erase_if(overrides, [](const std::string& word) { return word.starts_with("--"); });
  const SplitOverrides split = SplitByTarget(overrides);
  SolverReadOptions options;
  options.overrides = split.solver;
  NetReadOptions read;
  read.overrides = split.net;
  const SolverParameter solver = ReadSolver(FindConfig(model, "solver.prototxt"), options);
  const SolverNets nets = ReadSolverNets(solver, read);
  std::string text = SolverToText(solver) + NetToText(nets.train);
  for (const NetParameter& net : nets.tests) text += NetToText(net);
  for (const NetParameter& net : nets.turns) text += NetToText(net);
  return fmt::format("{:016x}", StableHash(text));
}

// The flags that every training gets, as words.
std::vector<std::string> PassedFlags(const Arguments& arguments) {
  if (arguments.Has("pin")) {
    throw Error(ErrorKind::kUsage, {}, "--pin is for the trainings, not for this process that starts them",
                StrCat("--setting 'pinned: --pin=", Printable(arguments.Get("pin")), "'"));
  }
  std::vector<std::string> flags;
  for (const char* flag : kPassed) {
    if (arguments.Has(flag)) flags.push_back(StrCat("--", flag, "=", arguments.Get(flag)));
  }
  return flags;
}

// Puts a setting's words behind those that all have; a flag of its own takes the place of theirs.
std::vector<std::string> Overlaid(std::vector<std::string> all, const std::vector<std::string>& own) {
  for (const std::string& word : own) {
    const std::string flag = word.substr(0, word.find('=') + 1);
    if (word.starts_with("--")) std::erase_if(all, [&](const std::string& other) { return other.starts_with(flag); });
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

// The command of a peer with {seed}, {target}, {metric}, {model} and {out} for what differs. Errors: kUsage, kNoInput.
std::vector<std::string> PeerCommand(const Arguments& arguments) {
  if (arguments.Has("peer")) {
    std::vector<std::string> words = SplitOutsideQuotes(arguments.Get("peer"), ' ');
    if (words.empty()) throw Error(ErrorKind::kUsage, "--peer wants a command");
    for (std::string& word : words) {
      const bool is_quoted = word.size() >= 2 && (word[0] == '"' || word[0] == '\'') && word.back() == word[0];
      if (is_quoted) word = word.substr(1, word.size() - 2);
    }
    return words;
  }
  if (arguments.Get("against") != "torch") {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--against wants torch, found \"", Printable(arguments.Get("against")), "\""),
                "--peer 'COMMAND' trains any other program by turns");
  }
  std::error_code code;
  if (!fs::exists(kPeersProgram, code)) {
    throw Error(ErrorKind::kNoInput, {}, StrCat("--against torch: no ", kPeersProgram, " from here"),
                "peers are found from the repository's root; elsewhere give --peer 'COMMAND'");
  }
  return {arguments.Get("python", kPeersPython),
          kPeersProgram,
          "{model}",
          "--seed",
          "{seed}",
          "--target",
          "{target}",
          "--metric",
          "{metric}",
          "--threads",
          std::to_string(ThreadCount())};
}

// Whether the program that a peer's command begins with is there. Errors: kNoInput.
void CheckPeerProgram(const std::string& program) {
  std::error_code code;
  std::vector<std::string> folders = {""};
  if (program.find('/') == std::string::npos) {
    const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody writes the environment
    folders = Split(path == nullptr ? "" : path, ':');
  }
  const bool is_there = std::ranges::any_of(
      folders, [&](const std::string& folder) { return fs::is_regular_file(fs::path(folder) / program, code); });
  if (is_there) return;
  const bool is_default = program == kPeersPython;
  throw Error(ErrorKind::kNoInput, {}, StrCat("the peer's program ", Printable(program), " is not there"),
              is_default ? "tools/bench/compare --setup makes it, or give --python PROGRAM" : "");
}

// Errors: kUsage for a word that only Moka's trainings would hear of, while PyTorch's train by a fixed recipe.
void RefuseWithoutPeer(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const bool is_shared = word == "--device=cpu" || std::ranges::any_of(kOfTheMachine, [&](const char* flag) {
                             return word.starts_with(StrCat("--", flag, "="));
                           });
    if (is_shared) continue;
    throw Error(ErrorKind::kUsage, {},
                StrCat(Printable(word), " has no use for --against torch, whose recipe is fixed"),
                StrCat("lay it over Moka's alone: --setting 'changed: ", Printable(word), "'"));
  }
}

// Errors: kUsage for two settings of one name, which could not be told apart.
void RefuseSameNames(const std::vector<AccuracySetting>& settings) {
  std::set<std::string> names;
  for (const AccuracySetting& setting : settings) {
    if (names.insert(setting.name).second) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("two settings are called \"", Printable(setting.name), "\""),
                "give them names: --setting 'NAME: key=value ...'");
  }
}

std::vector<AccuracySetting> SettingsOf(const Arguments& arguments) {
  const std::vector<std::string>& models = arguments.positionals.All();
  if (models.empty())
    throw Error(ErrorKind::kUsage, {}, "missing argument: a solver.prototxt or a folder with one",
                "moka bench accuracy models/lenet --target accuracy=0.98");
  const std::vector<NamedWords> named = ParseSettings(arguments.Get("setting"));
  std::vector<std::string> all = arguments.overrides.All();
  for (const std::string& word : all) RefuseOwnFields(word);
  for (std::string& flag : PassedFlags(arguments)) all.push_back(std::move(flag));
  const bool has_peer = arguments.Has("against") || arguments.Has("peer");
  const std::string peer = arguments.Get("against", "peer");
  if (has_peer && !arguments.Has("peer")) RefuseWithoutPeer(all);
  std::vector<AccuracySetting> settings;
  for (const std::string& given : models) {
    const std::string model = PathOfWord(given).string();
    const std::string front = models.size() > 1 ? ModelName(model) + " " : "";
    for (const NamedWords& own : named) {
      AccuracySetting setting{.name = own.name.empty() ? ModelName(model) : front + own.name,
                              .model = model,
                              .words = Overlaid(all, own.words)};
      setting.config = ChecksumOf(model, setting.words);
      settings.push_back(std::move(setting));
    }
    if (has_peer) {
      settings.push_back({.name = front + peer, .model = model, .words = PeerCommand(arguments), .is_peer = true});
    }
  }
  RefuseSameNames(settings);
  for (const AccuracySetting& setting : settings) {
    if (setting.is_peer) CheckPeerProgram(setting.words.at(0));
  }
  return settings;
}

// The bench of a file that is there, if it is the one that is asked for. Errors: kUsage with what differs, and for
// fewer seeds than it has.
AccuracyBench Continued(AccuracyBench asked, const fs::path& file, int64_t seeds) {
  std::error_code code;
  if (!fs::exists(file, code)) return asked;
  AccuracyBench before = ReadAccuracyBench(file);
  const std::vector<std::string> differences = DifferencesOf(before, asked);
  if (!differences.empty()) {
    throw Error(ErrorKind::kUsage, {}, StrCat(file.string(), " holds another measurement: ", Join(differences, "; ")),
                "keep this one in another file, --out FILE.json, or remove that one");
  }
  const int64_t most = before.runs.empty() ? 0 : std::ranges::max(before.runs, {}, &AccuracyRun::seed).seed;
  if (most > seeds) {
    throw Error(ErrorKind::kUsage, {}, StrCat(file.string(), " has runs of seed ", most, ", and --seeds wants ", seeds),
                StrCat("--seeds ", most, ", or another file: --out FILE.json"));
  }
  asked.runs = std::move(before.runs);
  return asked;
}

// Asks whether the table of peers has one for each model, by the program that reads it. Returns its exit code.
int AskPeers(const Arguments& arguments, const AccuracyBench& bench) {
  if (arguments.Has("peer")) return 0;
  for (const AccuracySetting& setting : bench.settings) {
    if (!setting.is_peer) continue;
    const JobEnd end = RunJob({setting.words.at(0), kPeersProgram, setting.model, "--check"},
                              {.out = "/dev/null", .is_foreign = true});
    if (end.was_stopped) return static_cast<int>(ErrorKind::kInterrupted);
    if (end.code != 0) return end.code;
  }
  return 0;
}

// Keeps a second bench away from the folder of runs, whose places are foreseen before they are made. Errors:
// kUnavailable while one is there.
OpenFile LockOf(const fs::path& runs) {
  CreateFolders(runs);
  OpenFile lock = OpenFile::ForUpdating(runs / "accuracy.lock");
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) return lock;
  throw Error(ErrorKind::kUnavailable, {}, StrCat(runs.string(), " is in use by another moka bench accuracy"),
              "wait for it, or give this one another folder: --runs FOLDER");
}

// Errors: before anything is trained, kCantCreate for a file that cannot be written at the end, kUsage for one that is
// asked for twice.
void CheckAsked(const Arguments& arguments, const fs::path& out) {
  std::map<fs::path, std::string> files = {{fs::weakly_canonical(out), "out"}};
  for (const char* flag : {"csv", "svg"}) {
    if (!arguments.Has(flag)) continue;
    const fs::path file = arguments.Get(flag);
    const auto [other, is_new] = files.emplace(fs::weakly_canonical(file), flag);
    if (!is_new) {
      throw Error(ErrorKind::kUsage,
                  StrCat("--", flag, " and --", other->second, " name one file, ", Printable(file.string())));
    }
    if (fs::is_directory(file)) throw Error(ErrorKind::kCantCreate, StrCat(file.string(), " is a folder"));
    const AtomicFile trial(file);  // without a commit nothing stays
  }
}

// Flags of `moka train` that change what it says and not what it does.
std::vector<std::string> Narration(const Arguments& arguments) {
  std::vector<std::string> words;
  if (arguments.Has("progress")) words.push_back(StrCat("--progress=", arguments.Get("progress")));
  for (const char* flag : {"quiet", "verbose"}) {
    if (arguments.Has(flag)) words.push_back(StrCat("--", flag));
  }
  return words;
}

void WriteAsked(const Arguments& arguments, const AccuracyBench& bench) {
  if (arguments.Has("csv")) WriteFileAtomically(arguments.Get("csv"), AccuracyCsv(bench));
  if (arguments.Has("svg")) WriteFileAtomically(arguments.Get("svg"), AccuracySvg(bench));
}

int RunBenchAccuracy(const Arguments& arguments) {
  const HeldSignals held;
  AccuracyBench bench;
  bench.target = TargetOf(arguments);
  bench.version = StrCat(Version(), " build ", BuildChecksum());
  bench.cpu = CpuName();
  bench.settings = SettingsOf(arguments);
  AccuracyTurns turns;
  turns.seeds = arguments.Int("seeds", 3, 1, 1000);
  turns.runs = arguments.Get("runs", "runs/bench-accuracy");
  turns.file = arguments.Has("out") ? fs::path(arguments.Get("out")) : turns.runs / "accuracy.json";
  turns.narration = Narration(arguments);
  arguments.RefuseUnread({"csv", "svg", "json"});
  CheckAsked(arguments, turns.file);
  const OpenFile lock = LockOf(turns.runs);
  bench = Continued(std::move(bench), turns.file, turns.seeds);
  if (const int code = AskPeers(arguments, bench); code != 0) return code;
  if (const int code = TakeTurns(bench, turns); code != 0) return code;
  if (arguments.Has("json")) {
    PrintJsonText(AccuracyJson(bench));
  } else {
    PrintLines(AccuracyText(bench));
  }
  WriteAsked(arguments, bench);
  return ExitCodeOf(bench);
}

}  // namespace

Verb BenchAccuracyVerb() {
  Verb verb;
  verb.name = "accuracy";
  verb.under = "bench";
  verb.summary = "time to a target of a test's metric, several seeds and settings by turns (exit 21: missed)";
  verb.usage = "MODEL|SOLVER ... --target NAME=VALUE [key=value ...] [--flags]";
  verb.examples = {
      "moka bench accuracy models/lenet --target accuracy=0.98 --seeds 5 --svg lenet.svg",
      "moka bench accuracy models/lenet --target accuracy=0.98 --setting 'slow: base_lr=0.01' --setting "
      "'fast: base_lr=0.1'",
      "moka bench accuracy models/cifar10_resnet20/solver_12epoch.prototxt --target accuracy=0.8 --against "
      "torch"};
  verb.options = {
      {"target", "NAME=VALUE", "an output of the test net and what it is to reach; losses and errors fall to it"},
      {"seeds", "N", "seeds 1 to N (default 3); more may be asked for later"},
      {"setting", "WORDS", "'NAME: key=value ...' or --FLAG=VALUE of moka train; each is trained", ';'},
      {"out", "FILE", "JSON of every run, from which the same command goes on (default RUNS/accuracy.json)"},
      {"runs", "FOLDER", "where the trainings lie (default runs/bench-accuracy)"},
      {"csv", "FILE", "a row for each run"},
      {"svg", "FILE", "a chart: the metric over the clock"},
      {"json", "", "print what FILE.json holds"},
      {"against", "NAME", "torch: PyTorch's training by the same recipe, by turns"},
      {"peer", "COMMAND", "another peer, with {seed}, {target}, {metric}, {model} and {out} filled in"},
      {"python", "PROGRAM", "of an environment with torch (default build/peers/bin/python)", '\0',
       "--against torch without --peer"},
      {"device", "NAME", "passed on to moka train, as are --precision, --ranks, --kernels, --data-threads, --weights"},
      {"precision", "NAME", ""},
      {"ranks", "N", ""},
      {"kernels", "MODE", ""},
      {"data-threads", "N", ""},
      {"gpu", "N", ""},
      {"weights", "FILES", ""},
      {"progress", "MODE", "of the trainings: auto, bar, lines or off"}};
  verb.computes = false;
  verb.run = RunBenchAccuracy;
  verb.takes_fields = TakenFields::kOfSolver;
  return verb;
}

}  // namespace moka

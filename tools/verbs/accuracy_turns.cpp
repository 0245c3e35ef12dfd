// The bench's file says which run is at work before it is started, so that a bench that was killed finds it again.
#include "tools/verbs/accuracy_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json_whole.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/run/run_folder.h"
#include "tools/launch/child.h"
#include "tools/launch/launched_run.h"
#include "tools/measure/accuracy_report.h"
#include "tools/measure/energy.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int kInterruptedCode = static_cast<int>(ErrorKind::kInterrupted);
constexpr int kMissedCode = static_cast<int>(ErrorKind::kTargetMissed);
constexpr int kDivergedCode = static_cast<int>(ErrorKind::kDiverged);
constexpr const char* kNowhere = "/dev/null";

void Save(const AccuracyBench& bench, const AccuracyTurns& turns) {
  WriteFileAtomically(turns.file, AccuracyJson(bench) + "\n");
}

std::string Self() { return fs::read_symlink("/proc/self/exe").string(); }

// A text as an override takes it: in quotes where it is no plain word.
std::string OverrideValue(const std::string& text) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (std::ranges::all_of(text, is_plain)) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += (c == '"' || c == '\\') ? StrCat("\\", c) : std::string(1, c);
  return quoted + "\"";
}

std::string RunName(const AccuracySetting& setting, int64_t seed) {
  std::string name = setting.name;
  std::ranges::replace_if(
      name, [](char c) { return !IsOfRunName(c); }, '_');
  name += StrCat("-seed", seed);
  return IsRunName(name) ? name : "run" + name;
}

// The words of a training, up to what says where it lies.
std::vector<std::string> TrainWords(const AccuracyBench& bench, const AccuracySetting& setting, int64_t seed) {
  std::vector<std::string> words = {Self(),
                                    "train",
                                    "--no-report",
                                    setting.model,
                                    StrCat("random_seed=", seed),
                                    StrCat("target_metric=", OverrideValue(bench.target.metric)),
                                    StrCat("target_value=", bench.target.value)};
  words.insert(words.end(), setting.words.begin(), setting.words.end());
  return words;
}

// The words that go on with a run. What else was said of it is in its folder.
std::vector<std::string> ResumeWords(const AccuracySetting& setting, const std::string& run) {
  std::vector<std::string> words = {Self(), "train", "--no-report", "--resume=" + run};
  for (const std::string& word : setting.words) {
    const bool is_in_the_run = word.starts_with("--precision=") || word.starts_with("--weights=");
    if (word.starts_with("--") && !is_in_the_run) words.push_back(word);
  }
  return words;
}

// The folder that a new run of this name gets.
fs::path NextFolder(const fs::path& runs, const std::string& name) {
  std::error_code code;
  for (int number = 1;; ++number) {
    fs::path folder = runs / fmt::format("{}-{:04}", name, number);
    if (!fs::exists(folder, code)) return folder;
  }
}

// The words of a peer for one seed.
std::vector<std::string> PeerWords(const AccuracyBench& bench, const AccuracySetting& setting, const AccuracyRun& run) {
  const std::vector<std::pair<std::string, std::string>> values = {{"{seed}", std::to_string(run.seed)},
                                                                   {"{target}", ToText(bench.target.value)},
                                                                   {"{metric}", bench.target.metric},
                                                                   {"{model}", setting.model},
                                                                   {"{out}", run.place}};
  std::vector<std::string> words = setting.words;
  for (std::string& word : words) {
    for (const auto& [name, value] : values) {
      for (size_t at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size()))
        word.replace(at, name.size(), value);
    }
  }
  return words;
}

bool WritesItsFile(const AccuracySetting& setting) {
  return std::ranges::any_of(setting.words,
                             [](const std::string& word) { return word.find("{out}") != std::string::npos; });
}

// The exit code of a run that has ended, though nobody has noted it.
std::optional<int> EndedCode(const fs::path& folder) {
  const std::optional<RunProgress> progress = ReadProgress(folder);
  if (!progress || (progress->state != "finished" && progress->state != "diverged")) return std::nullopt;
  const auto json = nlohmann::json::parse(ReadFile(folder / "status.json"), nullptr, false);
  if (!json.is_object() || !json.contains("exit_code") || json["exit_code"].is_null()) return std::nullopt;
  return JsonWhole<int>(json["exit_code"]);
}

// Whether a run's folder was made by a training of these words, of which the first two, the program and its verb, are
// not in it. Another training may have taken the name that was foreseen.
bool IsOf(const fs::path& folder, const std::vector<std::string>& words) {
  const auto json = nlohmann::json::parse(ReadFile(folder / "run.json"), nullptr, false);
  if (!json.is_object() || !json.contains("argv") || !json["argv"].is_array()) return false;
  return std::all_of(words.begin() + 2, words.end(), [&](const std::string& word) {
    return std::ranges::find(json["argv"], nlohmann::json(word)) != json["argv"].end();
  });
}

// Whether a run of before, of a training of these words, goes on from a checkpoint. Errors: kUnavailable where it is
// still being trained.
bool GoesOn(const AccuracyRun& run, const std::vector<std::string>& words) {
  std::error_code code;
  if (run.place.empty() || !fs::exists(fs::path(run.place) / "run.json", code)) return false;
  if (!IsOf(run.place, words)) return false;
  const RunFolder taken = RunFolder::Take(run.place);
  return EndedCode(run.place).has_value() || HasCheckpoint(run.place);
}

// A started process and what it took.
class Job {
 public:
  Job(const std::vector<std::string>& words, const fs::path& out, bool is_foreign) {
    EnergyMeter meter;
    end_ = RunJob(words, {.out = out, .each_second = [&] { meter.Sample(); }, .is_foreign = is_foreign});
    meter.Sample();
    joules_ = meter.joules();
  }
  const JobEnd& end() const { return end_; }
  // Adds what it took to what earlier sessions of the run took; where they were not counted, the sum is not known.
  void AddTo(AccuracyRun& run, bool goes_on) const {
    run.peak_bytes = std::max(goes_on ? run.peak_bytes : 0, end_.peak_bytes);
    if (!goes_on) {
      run.joules = joules_;
    } else if (run.joules) {
      run.joules = joules_ ? std::optional(*run.joules + *joules_) : std::nullopt;
    }
  }

 private:
  JobEnd end_;
  std::optional<double> joules_;
};

// One run, of Moka or of a peer. Returns an exit code if it ends the turns.
class Turn {
 public:
  Turn(AccuracyBench& bench, const AccuracyTurns& turns, const AccuracySetting& setting, AccuracyRun& run)
      : bench_(bench), turns_(turns), setting_(setting), run_(run) {}

  std::optional<int> Train() {
    const std::vector<std::string> anew = TrainWords(bench_, setting_, run_.seed);
    const bool goes_on = GoesOn(run_, anew);
    if (goes_on) {
      if (const std::optional<int> code = EndedCode(run_.place)) return Take(*code);
      LogInfo(StrCat(Title(), " goes on in ", run_.place));
    } else {
      StartAnew(NextFolder(turns_.runs, RunName(setting_, run_.seed)));
    }
    std::vector<std::string> words = goes_on ? ResumeWords(setting_, run_.place) : anew;
    if (!goes_on) words.push_back(StrCat("--run=", RunName(setting_, run_.seed)));
    words.push_back(StrCat("--runs=", turns_.runs.string()));
    words.insert(words.end(), turns_.narration.begin(), turns_.narration.end());
    const Job job(words, kNowhere, false);
    job.AddTo(run_, goes_on);
    const int code = job.end().code;
    if (code == 0 || code == kMissedCode || code == kDivergedCode) {
      const std::optional<int> stop = Take(code);
      return job.end().was_stopped ? std::optional(kInterruptedCode) : stop;
    }
    Save(bench_, turns_);
    if (job.end().was_stopped || code == kInterruptedCode) return kInterruptedCode;
    LogInfo(StrCat("moka train ended with exit code ", code));
    return code;
  }

  std::optional<int> RunPeer() {
    StartAnew(turns_.runs / (RunName(setting_, run_.seed) + ".jsonl"));
    const bool writes_file = WritesItsFile(setting_);
    std::error_code error;
    fs::remove(run_.place, error);  // what an earlier one has told is not this one's
    const Job job(PeerWords(bench_, setting_, run_), writes_file ? fs::path(kNowhere) : fs::path(run_.place), true);
    job.AddTo(run_, false);
    if (job.end().was_stopped) return kInterruptedCode;
    if (job.end().code != 0) {
      throw Error(ErrorKind::kPeer, {},
                  StrCat("the peer ended with exit code ", job.end().code, ": ", setting_.words[0]),
                  StrCat("it has printed to ", run_.place));
    }
    ReadRunOfPeer(run_.place, bench_.target, run_);
    return Note();
  }

 private:
  std::string Title() const { return StrCat(setting_.name, ", seed ", run_.seed, ":"); }

  void StartAnew(const fs::path& place) {
    run_ = {.setting = setting_.name, .seed = run_.seed, .place = place.string()};
    Save(bench_, turns_);
    LogInfo(StrCat(Title(), " in ", run_.place));
  }
  std::optional<int> Take(int code) {
    ReadRunOfMoka(run_.place, code, bench_.target, run_);
    return Note();
  }
  std::optional<int> Note() {
    Save(bench_, turns_);
    LogInfo(StrCat(Title(), " ", RunSentence(run_, bench_.target)));
    return std::nullopt;
  }

  AccuracyBench& bench_;
  const AccuracyTurns& turns_;
  const AccuracySetting& setting_;
  AccuracyRun& run_;
};

bool HasEnded(AccuracyBench& bench, const AccuracySetting& setting, int64_t seed) {
  const AccuracyRun* run = bench.Find(setting.name, seed);
  return run != nullptr && run->has_ended();
}

// Compiles each setting's nets with its target, unless one of its runs has shown that they train.
int TryAll(AccuracyBench& bench) {
  for (const AccuracySetting& setting : bench.settings) {
    const bool is_known =
        std::ranges::any_of(bench.runs, [&](const AccuracyRun& run) { return run.setting == setting.name; });
    if (setting.is_peer || is_known) continue;
    std::vector<std::string> words = TrainWords(bench, setting, 1);
    words.insert(words.end(), {"--dry-run", "--quiet"});
    const JobEnd end = RunJob(words, {.out = kNowhere});
    if (end.was_stopped) return kInterruptedCode;
    if (end.code != 0) return end.code;
  }
  return 0;
}

}  // namespace

int TakeTurns(AccuracyBench& bench, const AccuracyTurns& turns) {
  if (const int code = TryAll(bench); code != 0) return code;
  // No run moves while one is at work.
  bench.runs.reserve(bench.runs.size() + static_cast<size_t>(turns.seeds) * bench.settings.size());
  for (int64_t seed = 1; seed <= turns.seeds; ++seed) {
    for (const AccuracySetting& setting : bench.settings) {
      if (HasEnded(bench, setting, seed)) continue;
      AccuracyRun* run = bench.Find(setting.name, seed);
      if (run == nullptr)
        run = &bench.runs.emplace_back(AccuracyRun{.setting = setting.name, .seed = seed, .place = {}});
      Turn turn(bench, turns, setting, *run);
      const std::optional<int> code = setting.is_peer ? turn.RunPeer() : turn.Train();
      if (!code) continue;
      if (*code == kInterruptedCode) LogInfo("stopped; the same command goes on from here");
      return *code;
    }
  }
  return 0;
}

}  // namespace moka

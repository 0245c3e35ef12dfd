// Tells a run from a path by what is there, then resolves the part behind @: last, best, an iteration's number.
#include "tools/nets/checkpoint_source.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "core/open_file.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/zoo_weights.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatestLink = "latest";  // beside the runs, to one of them
constexpr std::string_view kNumbered = "iter_";
constexpr std::string_view kWeightsExtension = ".safetensors";

// The digits of "iter_N" without leading zeros; empty for other names.
std::string_view NumberIn(std::string_view which) {
  if (!which.starts_with(kNumbered)) return {};
  std::string_view digits = which.substr(kNumbered.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return {};
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

// Returns the names that can stand after the @, sorted.
std::vector<std::string> CheckpointNames(const fs::path& checkpoints) {
  std::vector<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, code)) {
    const fs::path& file = entry.path();
    if (file.extension() == kWeightsExtension) names.push_back(file.stem().string());
    if (entry.is_symlink(code) && file.extension().empty()) names.push_back(file.filename().string());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Empty if the folder has no such checkpoint.
fs::path Find(const fs::path& checkpoints, const std::string& which) {
  std::error_code code;
  fs::path file = checkpoints / which;
  if (fs::is_symlink(file, code)) file = TargetInFolder(file);
  if (file.extension().empty()) file += kWeightsExtension;
  if (fs::exists(file, code)) return file;
  const std::string_view number = NumberIn(which);
  if (number.empty()) return {};
  for (const std::string& name : CheckpointNames(checkpoints)) {
    if (NumberIn(name) == number) return checkpoints / (name + std::string(kWeightsExtension));
  }
  return {};
}

}  // namespace

std::vector<std::string> RunNames(const fs::path& runs) {
  std::vector<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs, code)) {
    if (IsRun(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string InRuns(const fs::path& runs) {
  return runs == "runs" ? std::string() : StrCat(" in ", Printable(runs.string()));
}

bool IsRun(const fs::path& folder) {
  std::error_code code;
  return fs::is_directory(folder / "checkpoints", code);
}

std::optional<NamedRun> FindNamedRun(const std::string& text, const fs::path& runs) {
  std::error_code code;
  if (text.empty() || fs::is_regular_file(text, code)) return std::nullopt;
  // Refuses a link `latest` that leaves its folder (kNotAllowed).
  if (fs::path(text).filename() == kLatestLink && fs::is_symlink(text, code)) TargetInFolder(text);
  if (fs::is_symlink(runs / kLatestLink, code) && text == kLatestLink) TargetInFolder(runs / kLatestLink);
  // A folder's own name may hold an @.
  if (IsRun(text)) return NamedRun{text, {}};
  if (IsRun(runs / text)) return NamedRun{runs / text, {}};
  const size_t at = text.rfind('@');
  if (at == std::string::npos || at == 0) return std::nullopt;
  const std::string run = text.substr(0, at);
  for (const fs::path& folder : {fs::path(run), runs / run}) {
    if (IsRun(folder)) return NamedRun{folder, text.substr(at + 1)};
  }
  return std::nullopt;
}

Error NoRunError(const std::string& name, const fs::path& runs) {
  std::error_code code;
  for (const fs::path& folder : {fs::path(name), runs / name}) {
    if (name.empty() || !fs::is_regular_file(folder / "run.json", code) || IsRun(folder)) continue;
    const fs::path checkpoints = folder / "checkpoints";
    if (fs::exists(fs::symlink_status(checkpoints, code))) {
      return {ErrorKind::kNoInput, SourcePlace{}, StrCat(Printable(checkpoints.string()), " is no folder"),
              "a run keeps its checkpoints there"};
    }
    return {ErrorKind::kNoInput, SourcePlace{},
            StrCat(Printable(folder.string()), " is a run without its checkpoints/"),
            "bring that folder back beside run.json; without it there is nothing to go on from"};
  }
  return {ErrorKind::kNoInput, SourcePlace{}, StrCat("no run ", Printable(name), InRuns(runs)),
          DidYouMean(name, RunNames(runs))};
}

fs::path FindCheckpoint(const std::string& text, const fs::path& runs) {
  const std::optional<NamedRun> run = FindNamedRun(text, runs);
  if (!run) {
    const std::string name = text.substr(0, text.rfind('@'));
    std::error_code code;
    if (!fs::is_regular_file(text, code)) throw NoRunError(name, runs);
    throw Error(ErrorKind::kNoInput, {}, StrCat("no run ", Printable(name), InRuns(runs)),
                "a file of weights is given as --weights FILE");
  }
  const std::vector<std::string> wanted =
      run->which.empty() ? std::vector<std::string>{"best", "last"} : std::vector<std::string>{run->which};
  const fs::path checkpoints = run->folder / "checkpoints";
  for (const std::string& which : wanted) {
    const fs::path file = Find(checkpoints, which);
    if (!file.empty()) return file;
  }
  const std::vector<std::string> there = CheckpointNames(checkpoints);
  throw Error(ErrorKind::kNoInput, {},
              StrCat(Printable(run->folder.string()), " has no checkpoint \"", Printable(wanted.front()), "\""),
              there.empty() ? std::string("it has none") : StrCat("it has ", Join(there, ", ")));
}

fs::path FindStart(const std::string& text, const fs::path& runs) {
  std::error_code code;
  if (text.starts_with(kZooWord)) return ZooWeightsNamed(text);
  if (fs::is_regular_file(text, code)) return text;
  if (const std::optional<NamedRun> run = FindNamedRun(text, runs); run || text.find('@') != std::string::npos)
    return FindCheckpoint(text, runs);
  if (ModelFolderOf(text)) return ZooWeightsNamed(text);
  std::vector<std::string> names = RunNames(runs);
  if (const std::optional<fs::path> models = FindModelsFolder()) {
    for (const std::string& name : ModelNames(*models)) names.push_back(StrCat(kZooWord, name));
  }
  throw Error(ErrorKind::kNoInput, {}, StrCat("no file, run or model ", Printable(text), InRuns(runs)),
              DidYouMean(text, names));
}

std::string ResolveWeights(const std::string& list, const fs::path& runs) {
  std::vector<std::string> files;
  std::error_code code;
  for (const std::string& name : WeightFileNames(list)) {
    if (name.starts_with(kZooWord)) {
      files.push_back(ZooWeightsNamed(name).string());
      continue;
    }
    // A path may have an @ in a folder's name, and a file's ending behind it.
    const size_t at = name.rfind('@');
    const bool looks_so = at != std::string::npos && name.find_first_of("/.", at) == std::string::npos;
    const bool is_named = FindNamedRun(name, runs) || looks_so;
    files.push_back(is_named && !fs::is_regular_file(name, code) ? FindCheckpoint(name, runs).string() : name);
  }
  return Join(files, ",");
}

}  // namespace moka

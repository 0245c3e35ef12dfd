// The words that ranks run: checked before anything starts, and changed so that they go on where a run stopped.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"

namespace moka {

// The words after -- on the command line.
struct LaunchedVerb {
  std::vector<std::string> words;  // a verb of moka and its arguments
  bool is_training = false;
  Arguments arguments{};         // of a training
  std::string run_name;          // of a training: its folders are RUNS/NAME-NNNN
  std::filesystem::path runs{};  // where they lie
  bool uses_gpus = false;        // a flag says so
};

// Reads the words after --. With --resume=auto, a run that was started by the same words goes on as ResumingWords say:
// a scheduler that starts a job again repeats its words. Errors: kUsage with the nearest verb or flag; for a training
// also those of ChooseRun.
LaunchedVerb ReadLaunchedVerb(const std::vector<std::string>& words);

// Finds the folder of the run that a job works on: the one whose run.json was made or changed since this was made, as
// every session of a training does at its start. The newest, if other jobs start runs of the same name meanwhile.
class RunWatch {
 public:
  explicit RunWatch(const LaunchedVerb& verb);
  std::optional<std::filesystem::path> Find() const;

 private:
  std::map<std::filesystem::path, std::filesystem::file_time_type> Look() const;

  std::filesystem::path runs_;
  std::string prefix_;
  std::map<std::filesystem::path, std::filesystem::file_time_type> before_;
};

// Whether a checkpoint of the run is complete. Without one a resumed run begins at iteration 0.
bool HasCheckpoint(const std::filesystem::path& run);

// The words that continue a run: its configuration is in its folder, so solver, overrides and starting weights are left
// out (an override such as +field=x would count twice); other flags stay.
std::vector<std::string> ResumingWords(const LaunchedVerb& verb, const std::filesystem::path& run);

// The words with a run's name of their own and --resume=auto, for a job that a scheduler starts again: `suffix` is
// appended to the name. A training that resumes a run by name stays as it is.
std::vector<std::string> RequeuedWords(const LaunchedVerb& verb, const std::string& suffix);

}  // namespace moka

// A measurement of the time to an accuracy: settings that were trained to one target with several seeds each, by turns,
// kept in a JSON file from which the same command goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/measure/accuracy_run.h"

namespace moka {

// A model with its changes, or a peer.
struct AccuracySetting {
  std::string name;
  std::string model;                 // the word that `moka train` takes
  std::vector<std::string> words{};  // behind it: overrides and flags; of a peer its whole command
  bool is_peer = false;
  std::string config{};  // a checksum of the solver and nets that the words make; empty for a peer
};

struct AccuracyBench {
  AccuracyTarget target;
  std::string version;  // of this program
  std::string cpu;
  std::vector<AccuracySetting> settings;
  std::vector<AccuracyRun> runs{};  // in the order in which they were begun

  // The run of a setting with a seed; null if it was not begun.
  AccuracyRun* Find(const std::string& setting, int64_t seed);
};

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// The ended runs of a setting. Spreads are those of the runs that reached the target; none where none did.
struct AccuracySummary {
  std::string setting;
  int64_t runs = 0;
  int64_t reached = 0;
  int64_t diverged = 0;
  std::optional<Spread> clock_s{};
  std::optional<Spread> epochs{};
  std::optional<Spread> images_per_s{};
  std::optional<Spread> joules{};
  std::optional<Spread> ratio{};  // of its clock to the first setting's, taken within each seed; none for the first
};
std::vector<AccuracySummary> SummariesOf(const AccuracyBench& bench);

// 20 if a run diverged, else 21 if one missed the target, else 0.
int ExitCodeOf(const AccuracyBench& bench);

// Settings, runs with all their points, and summaries.
std::string AccuracyJson(const AccuracyBench& bench);
// Errors: those of ReadFile; kBadData for another file.
AccuracyBench ReadAccuracyBench(const std::filesystem::path& file);

// In which the measurement that is asked for differs from the one of a file, a sentence each: target, program,
// processor, settings. Seeds may be added.
std::vector<std::string> DifferencesOf(const AccuracyBench& file, const AccuracyBench& asked);

}  // namespace moka

// One training to a target, as `moka bench accuracy` keeps it: its tests over the clock of the training, and what it
// took. The clock is MLPerf's: it begins when training data is first touched and holds tests and checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// The output of the first test net that trainings go for.
struct AccuracyTarget {
  std::string metric;
  double value = 0;

  // "accuracy >= 0.9".
  std::string Text() const;
};

// A test.
struct AccuracyPoint {
  double clock_s = 0;
  int64_t iteration = 0;
  double epoch = 0;
  double value = 0;  // of the target's metric; NaN where it was not finite
};

// The end of a run; an open one has not ended, or was cut.
enum class AccuracyEnd : uint8_t { kOpen, kReached, kMissed, kDiverged };
// "open", "reached", ...
std::string_view NameOf(AccuracyEnd end);

struct AccuracyRun {
  std::string setting;
  int64_t seed = 0;
  std::string place;  // the run's folder, or the file with a peer's lines
  AccuracyEnd end = AccuracyEnd::kOpen;
  std::vector<AccuracyPoint> points{};            // up to the target
  double clock_s = 0;                             // to the target, or to the end where it was missed
  std::optional<double> init_s{};                 // before the clock: start-up, nets, kernel search
  std::optional<double> images_per_s{};           // on the clock, tests and checkpoints inside
  std::optional<double> training_images_per_s{};  // in iterations alone
  std::optional<double> input_wait{};             // the part of the clock in which iterations waited for their input
  std::optional<double> joules{};                 // of the machine while the process was there
  int64_t peak_bytes = 0;                         // resident; 0: not known
  int64_t sessions = 1;                           // processes that worked on it: more than one if it was interrupted
  std::string version{};                          // of the program that trained

  bool has_ended() const { return end != AccuracyEnd::kOpen; }
};

// Fills in what the folder of a run of `moka train` says, which ended with `exit_code`. The time of a training before
// it (SolverParameter.first_solver) is added to its clock. Errors: kBadData for a run without a clock, which an older
// program made, and for what is no run.
void ReadRunOfMoka(const std::filesystem::path& folder, int exit_code, const AccuracyTarget& target, AccuracyRun& run);

// Fills in what a peer has printed: a line of JSON for each test, {"clock_s":..,"epoch":..,"iteration":..,METRIC:..},
// and a last one, {"reached":..,"init_s":..,"images_per_s":..,"version":..}, that may also have
// "training_images_per_s" and "input_wait". Other lines are passed over. Errors: kBadData with the line.
void ReadRunOfPeer(const std::filesystem::path& file, const AccuracyTarget& target, AccuracyRun& run);

// The test that the run ended with: the one that met the target, or its last; null where it made none.
const AccuracyPoint* LastPoint(const AccuracyRun& run);

nlohmann::ordered_json JsonOfRun(const AccuracyRun& run);
// Errors: those of nlohmann's at(), and kBadData for numbers that are none.
AccuracyRun RunOfJson(const nlohmann::ordered_json& json);

}  // namespace moka

// A run's folder: runs/NAME-NNNN with run.json, status.json, config/, log.txt, metrics.jsonl, results.csv, events/,
// checkpoints/, plots/. Everything in it is relative, so it can be moved, packed and served. One process writes it at a
// time: it holds an flock on the file `lock`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/run/run_identity.h"

namespace moka {

// Names of runs are of letters, digits, "-", "_" and ".", and begin with neither of "-" and "."; "latest" is the
// link's. Letters of other scripts than Latin are, too.
bool IsOfRunName(char c);
bool IsRunName(std::string_view name);
// Errors: kUsage.
void CheckRunName(const std::string& name);

// The content of status.json; replaced as a whole.
struct RunStatus {
  std::string state = "starting";  // starting, running, testing, interrupted, finished, failed, diverged
  int64_t iteration = 0;
  int64_t max_iteration = 0;
  int64_t batch = 0;  // samples of an iteration, of all ranks together; 0: not known yet
  double epoch = 0;
  double eta_s = 0;
  std::optional<double> best{};
  std::string last_checkpoint{};  // relative to the folder
  std::optional<int> exit_code{};
  std::string error{};
  struct Times {
    double init_s = 0;
    double run_s = 0;
  };
  std::optional<Times> clock{};  // of the run (optim/run/run_clock.h), once it has started
};

// A value of one metric line or result row.
using Metrics = std::vector<std::pair<std::string, double>>;

// The moment of a training at which a line of metrics.jsonl is written.
struct RunPoint {
  int64_t iteration = 0;
  double epoch = 0;
  double clock_s = 0;  // of the run's clock
};

class RunFolder {
 public:
  // Makes runs/NAME-NNNN with the next free number, points `latest` at it and locks it. Errors: kCantCreate.
  // A run that fails gives `latest` to the newest that did not (WriteStatus).
  static RunFolder Create(const std::filesystem::path& runs, const RunIdentity& identity);
  // Locks an existing run and adds a session to its run.json. Errors: kNoInput, kUnavailable within a second if
  // another process holds the lock (its pid, host and start named).
  static RunFolder Open(const std::filesystem::path& folder, const RunIdentity& identity);
  // Locks an existing run and changes nothing else in it, so that whatever refuses to go on leaves it as it is; what
  // goes on calls BeginSession before it writes. Errors: as Open.
  static RunFolder Take(const std::filesystem::path& folder);
  void BeginSession(const RunIdentity& identity);

  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&& other) = delete;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path log() const { return path_ / "log.txt"; }
  std::string name() const { return path_.filename().string(); }
  bool is_resumed() const { return is_resumed_; }
  // Whether this process has begun to write it: a new run, or one whose session has begun.
  bool has_begun() const { return has_begun_; }

  // Errors: kIo where the folder that this process holds the lock of is no more to be found by its path: it was removed
  // or renamed, or another run has taken its place. Whatever writes asks this first, so that no part of it is made
  // anew.
  void CheckStanding() const;
  // Errors: kIo where what the run goes on from later, beside its checkpoints, is gone.
  void CheckResumable() const;

  // The link `latest` beside this run names it from now on; where something else has that name, a warning. Errors:
  // kCantCreate.
  void BecomeLatest() const;
  // config/NAME, atomically.
  void WriteConfig(std::string_view name, std::string_view text) const;
  // Replaces status.json; the link `latest` leaves a run that is failed or diverged. Errors: kCantCreate, kIo.
  void WriteStatus(const RunStatus& status) const;
  // Returns the status that WriteStatus was given last, written or not.
  const RunStatus& last_status() const { return last_status_; }
  // The same of a session that ends with an error: where nothing else can be written, into the file that is there.
  void WriteLastStatus(const RunStatus& status) const noexcept;
  // A line of metrics.jsonl: {"iter":..,"epoch":..,"time":..,"clock_s":..,"split":..,metrics}. A value that is not
  // finite becomes null with "finite":false. Errors: kIo.
  void AppendMetrics(const RunPoint& point, std::string_view split, const Metrics& metrics) const;
  // A line of another file of the folder. Errors: kCantCreate, kIo.
  void AppendLine(std::string_view file, std::string_view line) const;
  // A line {"event":EVENT,"iter":..}.
  void AppendEvent(std::string_view event, int64_t iteration) const;
  // The run goes on from a checkpoint of `iteration`: a "resume" event supersedes the metrics of what is done again,
  // and results.csv loses those rows. Without `keeps_tests` the tests of that iteration are made again, too.
  void Rewind(int64_t iteration, bool keeps_tests = true) const;
  // A row of results.csv; a new file starts with the header. Rows of another header go on with empty cells.
  void AppendResult(int64_t iteration, double epoch, const Metrics& metrics) const;

 private:
  RunFolder(std::filesystem::path path, int lock_fd, bool is_resumed)
      : path_(std::move(path)), lock_fd_(lock_fd), is_resumed_(is_resumed) {}

  std::string StatusText(const RunStatus& status) const;
  void WriteIdentity(const RunIdentity& identity);
  // Points `latest` at the run that spoke last of those that did not fail, or takes it away where there is none.
  void LeaveLatest() const;

  std::filesystem::path path_;
  int lock_fd_ = -1;
  bool is_resumed_ = false;
  bool has_begun_ = false;
  mutable RunStatus last_status_{};
};

// The progress that a run's status.json tells.
struct RunProgress {
  std::string state;
  std::string heartbeat;  // "2026-01-31T12:00:00Z": texts sort as times do
};
// None where the folder holds no readable status.json.
std::optional<RunProgress> ReadProgress(const std::filesystem::path& folder);

// One line of metrics.jsonl that is in force: lines superseded by a later resume are left out.
struct MetricLine {
  int64_t iteration = 0;
  double epoch = 0;
  std::optional<double> clock_s;  // none in lines of older versions
  std::string split;
  Metrics metrics;  // NaN for null
};
// Errors: kNoInput. Lines that are no JSON (cut by a crash) are skipped.
std::vector<MetricLine> ReadMetrics(const std::filesystem::path& folder);

}  // namespace moka

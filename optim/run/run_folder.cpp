// Files are replaced by rename or appended by single writes. A lock by flock(2) keeps a second process out, and one
// that died has none.
#include "optim/run/run_folder.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/json_whole.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "core/wall_clock.h"
#include "optim/run/run_clock.h"
#include "optim/run/run_records.h"
#include "optim/run/scaling_baseline.h"
#include "optim/signals.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kMaxRuns = 9999;
constexpr const char* kResume = "resume";
constexpr const char* kResumeInTest = "resume in a test";  // whose iteration's tests are made again
constexpr const char* kLatest = "latest";
constexpr const char* kLock = "lock";
constexpr std::array kParts = {"config", "events", "checkpoints", "plots"};
constexpr int64_t kJsonLimitBytes = int64_t{16} << 20;

// "2026-01-31T12:00:00Z".
std::string TimeText() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string Dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Appends one line with a single write, so that a kill leaves at most the last line cut, and a full disk none.
void AppendTo(const fs::path& path, const std::string& line) {
  const OpenFile file = OpenFile::ForAppending(path);
  struct stat before {};
  const bool is_known = fstat(file.fd(), &before) == 0;
  const ssize_t written = write(file.fd(), line.data(), line.size());
  if (written != std::ssize(line)) {
    const std::string reason = written < 0 ? SystemReason() : "disk full";
    if (is_known && written > 0) (void)!ftruncate(file.fd(), before.st_size);
    throw Error(ErrorKind::kIo, StrCat("cannot write ", path.string(), ": ", reason));
  }
}

// A kill can cut the last line; the next must not be glued to it. What was cut goes, a whole record gets its end.
void EndLastLine(const fs::path& path) {
  constexpr int64_t kLongestLine = int64_t{16} << 20;
  std::error_code code;
  if (!fs::exists(path, code)) return;
  const OpenFile file = OpenFile::ForUpdating(path);
  std::string tail(static_cast<size_t>(std::min(file.bytes(), kLongestLine)), '\0');
  file.ReadAt(file.bytes() - std::ssize(tail), tail.data(), std::ssize(tail), path);
  const std::string_view line = std::string_view(tail).substr(tail.rfind('\n') + 1);
  if (line.empty()) return;
  if (RecordOf(line).is_object()) return AppendTo(path, "\n");
  if (ftruncate(file.fd(), file.bytes() - std::ssize(line)) != 0) {
    throw Error(ErrorKind::kIo, StrCat("cannot write ", path.string(), ": ", SystemReason()));
  }
}

// Training lines carry the iterations done before them, test lines those done in all. Where a test was left before its
// end, it is made again.
bool IsSuperseded(const MetricLine& line, int64_t resumed_at, bool keeps_tests) {
  return line.iteration > resumed_at || (line.iteration == resumed_at && (line.split == "train" || !keeps_tests));
}

Json SessionOf(const RunIdentity& identity) {
  Json session;
  session["start"] = TimeText();
  session["pid"] = getpid();
  session["host"] = HostName();
  session["argv"] = identity.argv;
  session["version"] = identity.version;
  session["threads"] = identity.threads;
  return session;
}

bool IsFailed(std::string_view state) { return state == "failed" || state == "diverged"; }

// Takes the lock of a run's folder, waiting up to a second.
int Lock(const fs::path& folder) {
  const fs::path path = folder / kLock;
  OpenFile file = OpenFile::ForUpdating(path);
  const int fd = file.fd();
  constexpr int kTries = 10;
  constexpr auto kPause = std::chrono::milliseconds(80);
  for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (i < kTries) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    std::array<char, 512> holder{};
    const ssize_t n = pread(fd, holder.data(), holder.size() - 1, 0);
    throw Error(ErrorKind::kUnavailable,
                StrCat(folder.string(), " is in use by another process (",
                       n > 0 ? Printable(Trim(holder.data())) : "unknown", "); wait for it or stop it"));
  }
  const std::string text = StrCat("pid ", getpid(), " host ", HostName(), " start ", TimeText(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw Error(ErrorKind::kIo, StrCat("cannot write ", path.string(), ": ", SystemReason()));
  }
  return file.Release();
}

// Cells of a CSV line without quoting: names are checked by CsvName.
std::string CsvName(std::string name) {
  for (char& c : name) {
    if (c == ',' || c == '"' || c == '\n' || c == '\r') c = '_';
  }
  return name;
}

}  // namespace

bool IsOfRunName(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || byte >= 0x80;
}

bool IsRunName(std::string_view name) {
  return !name.empty() && name != kLatest && name.front() != '.' && name.front() != '-' &&
         std::ranges::all_of(name, IsOfRunName) && Printable(name) == name;
}

void CheckRunName(const std::string& name) {
  if (IsRunName(name)) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat("\"", Printable(name), "\" cannot name a run; use letters, digits, - and _"),
              name == kLatest ? "the link to the newest run has that name" : "");
}

RunFolder RunFolder::Create(const fs::path& runs, const RunIdentity& identity) {
  CheckRunName(identity.name);
  CreateFolders(runs);
  fs::path folder;
  for (int number = 1; folder.empty(); ++number) {
    if (number > kMaxRuns) {
      throw Error(ErrorKind::kCantCreate, StrCat(runs.string(), " has ", kMaxRuns, " runs named ", identity.name));
    }
    std::array<char, 16> suffix{};
    std::snprintf(suffix.data(), suffix.size(), "-%04d", number);
    const fs::path candidate = runs / (identity.name + suffix.data());
    // mkdir is atomic: of two processes that want the same number one gets EEXIST and takes the next.
    if (mkdir(candidate.c_str(), 0755) == 0) {
      folder = candidate;
    } else if (errno != EEXIST) {
      throw Error(ErrorKind::kCantCreate, StrCat("cannot create folder ", candidate.string(), ": ", SystemReason()));
    }
  }
  try {
    RunFolder run(folder, Lock(folder), false);
    run.WriteIdentity(identity);
    return run;
  } catch (const std::exception&) {  // a folder that is no run is none to keep
    // One by one: to walk the folder takes descriptors, which may be what is missing.
    std::error_code code;
    for (const char* part : kParts) fs::remove(folder / part, code);
    for (const char* file : {kLock, "run.json", "status.json"}) fs::remove(folder / file, code);
    fs::remove(folder, code);
    throw;
  }
}

void RunFolder::WriteIdentity(const RunIdentity& identity) {
  for (const char* part : kParts) CreateFolders(path_ / part);
  Json json;
  json["id"] = name();
  json["name"] = identity.name;
  json["created"] = TimeText();
  json["version"] = identity.version;
  json["argv"] = identity.argv;
  json["host"] = HostName();
  json["seed"] = identity.seed;
  json["threads"] = identity.threads;
  json["parent"] = identity.parent.empty() ? Json() : Json(identity.parent);
  for (const auto& [key, value] : identity.more) json[key] = value;
  if (!identity.data.empty()) json["data"] = identity.data;
  json["sessions"] = Json::array({SessionOf(identity)});
  WriteFileAtomically(path_ / "run.json", Dump(json));
  WriteStatus({});
  BecomeLatest();
  has_begun_ = true;
}

RunFolder RunFolder::Take(const fs::path& folder) {
  const fs::path file = fs::weakly_canonical(folder);
  (void)ReadRunJson(file);
  CheckOwnFolder(file);
  return {file, Lock(file), true};
}

void RunFolder::BeginSession(const RunIdentity& identity) {
  CheckStanding();
  Json json = ReadRunJson(path_);
  if (!json["sessions"].is_array()) json["sessions"] = Json::array();
  json["sessions"].push_back(SessionOf(identity));
  if (!identity.data.empty() && !json["data"].is_object()) json["data"] = Json::object();
  for (const auto& [name, content] : identity.data) json["data"][name] = content;
  WriteFileAtomically(path_ / "run.json", Dump(json));
  has_begun_ = true;
  for (const char* part : kParts) CreateFolders(path_ / part);
}

RunFolder RunFolder::Open(const fs::path& folder, const RunIdentity& identity) {
  RunFolder run = Take(folder);
  run.BeginSession(identity);
  return run;
}

void RunFolder::CheckStanding() const {
  struct stat held {};
  struct stat found {};
  const bool is_found = stat((path_ / kLock).c_str(), &found) == 0;
  if (is_found && fstat(lock_fd_, &held) == 0 && held.st_dev == found.st_dev && held.st_ino == found.st_ino) return;
  throw Error(ErrorKind::kIo, {},
              StrCat(path_.string(), ": the run's folder was removed or replaced while it was trained in"),
              "a folder that was renamed goes on from its last checkpoint: moka train --resume=FOLDER");
}

void RunFolder::CheckResumable() const {
  CheckStanding();
  for (const char* needed : {"run.json", "config/solver.prototxt"}) {
    std::error_code code;
    if (fs::is_regular_file(path_ / needed, code)) continue;
    throw Error(ErrorKind::kIo, StrCat((path_ / needed).string(),
                                       " was removed while the run was trained in: it cannot be resumed without"));
  }
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      is_resumed_(other.is_resumed_),
      has_begun_(other.has_begun_),
      last_status_(std::move(other.last_status_)) {}

RunFolder::~RunFolder() {
  if (lock_fd_ < 0) return;
  SignalRequests::SetLastWords({}, {});
  close(lock_fd_);
}

void RunFolder::BecomeLatest() const {
  const fs::path link = path_.parent_path() / kLatest;
  std::error_code code;
  const fs::file_status status = fs::symlink_status(link, code);
  if (!fs::exists(status) || fs::is_symlink(status)) return ReplaceSymlink(link, path_.filename());
  LogWarning(StrCat(Printable(link.string()), " is no link, so it does not name the newest run, ", name(),
                    "; remove or rename it"));
}

void RunFolder::LeaveLatest() const {
  const fs::path runs = path_.parent_path();
  std::error_code code;
  if (fs::read_symlink(runs / kLatest, code) != path_.filename() || code) return;
  fs::path newest;
  std::string heartbeat;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs, code)) {
    if (entry.is_symlink(code)) continue;
    const std::optional<RunProgress> progress = ReadProgress(entry.path());
    if (!progress || IsFailed(progress->state) || progress->heartbeat < heartbeat) continue;
    newest = entry.path().filename();
    heartbeat = progress->heartbeat;
  }
  if (newest.empty()) {
    fs::remove(runs / kLatest, code);
  } else {
    ReplaceSymlink(runs / kLatest, newest);
  }
}

void RunFolder::WriteConfig(std::string_view name, std::string_view text) const {
  WriteFileAtomically(path_ / "config" / name, text);
}

std::string RunFolder::StatusText(const RunStatus& status) const {
  Json json;
  json["state"] = status.state;
  json["pid"] = getpid();
  json["host"] = HostName();
  json["iter"] = status.iteration;
  json["max_iter"] = status.max_iteration;
  if (status.batch > 0) json["batch"] = status.batch;
  json["epoch"] = NumberOrNull<Json>(status.epoch);
  json["eta_s"] = NumberOrNull<Json>(status.eta_s);
  json["best"] = NumberOrNull<Json>(status.best);
  json["last_checkpoint"] = status.last_checkpoint.empty() ? Json() : Json(status.last_checkpoint);
  json["exit_code"] = status.exit_code ? Json(*status.exit_code) : Json();
  json["error"] = status.error.empty() ? Json() : Json(status.error);
  json["heartbeat"] = TimeText();
  if (status.clock)
    json["clock"] = {{"init_s", ToMillis(status.clock->init_s)}, {"run_s", ToMillis(status.clock->run_s)}};
  return Dump(json);
}

void RunFolder::WriteStatus(const RunStatus& status) const {
  last_status_ = status;
  CheckStanding();
  WriteFileAtomically(path_ / "status.json", StatusText(status));
  RunStatus killed = status;
  killed.state = "interrupted";
  killed.exit_code = kKilledByInterrupt;
  SignalRequests::SetLastWords(path_ / "status.json", status.exit_code ? std::string() : StatusText(killed));
  if (IsFailed(status.state)) LeaveLatest();
}

void RunFolder::WriteLastStatus(const RunStatus& status) const noexcept {
  try {
    WriteStatus(status);
  } catch (const std::exception&) {
    try {
      // A full disk has no room for a file beside it, and has the block of the one that is there.
      CheckStanding();
      const OpenFile file = OpenFile::ForUpdating(path_ / "status.json");
      const std::string text = StatusText(status);
      const bool is_whole = pwrite(file.fd(), text.data(), text.size(), 0) == std::ssize(text);
      if (is_whole) (void)!ftruncate(file.fd(), std::ssize(text));
      LeaveLatest();
    } catch (const std::exception&) {
      return;  // the error that ended the session is told; where it stands cannot be
    }
  }
}

void RunFolder::AppendMetrics(const RunPoint& point, std::string_view split, const Metrics& metrics) const {
  Json json;
  json["iter"] = point.iteration;
  json["epoch"] = NumberOrNull<Json>(point.epoch);
  json["time"] = ToMillis(SecondsSince1970());
  json["clock_s"] = ToMillis(point.clock_s);
  json["split"] = split;
  bool finite = true;
  for (const auto& [name, value] : metrics) {
    json[name] = NumberOrNull<Json>(value);
    finite = finite && std::isfinite(value);
  }
  if (!finite) json["finite"] = false;
  AppendLine("metrics.jsonl", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void RunFolder::AppendLine(std::string_view file, std::string_view line) const {
  CheckStanding();
  AppendTo(path_ / file, StrCat(line, "\n"));
}

void RunFolder::AppendEvent(std::string_view event, int64_t iteration) const {
  Json json;
  json["event"] = event;
  json["iter"] = iteration;
  json["time"] = ToMillis(SecondsSince1970());
  AppendLine("metrics.jsonl", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void RunFolder::AppendResult(int64_t iteration, double epoch, const Metrics& metrics) const {
  CheckStanding();
  const fs::path path = path_ / "results.csv";
  std::vector<std::string> header = {"iter", "epoch"};
  std::error_code code;
  if (fs::exists(path, code) && fs::file_size(path, code) > 0) {
    const std::string text = ReadLinesFile(path);
    header = Split(std::string_view(text).substr(0, text.find('\n')), ',');
  } else {
    for (const auto& [name, value] : metrics) header.push_back(CsvName(name));
    AppendTo(path, Join(header, ",") + "\n");
  }
  std::vector<std::string> row;
  for (const std::string& column : header) {
    if (column == "iter" || column == "epoch") {
      row.push_back(column == "iter" ? std::to_string(iteration) : ToText(epoch));
      continue;
    }
    row.emplace_back();
    for (const auto& [name, value] : metrics) {
      if (CsvName(name) == column) row.back() = ToText(value);
    }
  }
  AppendTo(path, Join(row, ",") + "\n");
}

void RunFolder::Rewind(int64_t iteration, bool keeps_tests) const {
  TellBrokenRecords(path_, iteration);
  for (const auto file : {std::string_view("metrics.jsonl"), std::string_view(kScalingFile)}) EndLastLine(path_ / file);
  AppendEvent(keeps_tests ? kResume : kResumeInTest, iteration);
  const fs::path results = path_ / "results.csv";
  std::error_code code;
  if (!fs::exists(results, code)) return;
  std::string kept;
  const std::string text = ReadLinesFile(results);
  const std::string_view header = std::string_view(text).substr(0, text.find('\n'));
  for (const std::string& row : Split(text, '\n')) {
    const bool is_row = IsResultRow(row, std::ranges::count(header, ','));
    const int64_t row_iteration = std::strtoll(row.c_str(), nullptr, 10);
    const bool is_in_force = keeps_tests ? row_iteration <= iteration : row_iteration < iteration;
    if (kept.empty() || (is_row && is_in_force)) kept += row + "\n";
  }
  WriteFileAtomically(results, kept);
}

std::optional<RunProgress> ReadProgress(const fs::path& folder) {
  std::string text;
  try {
    text = ReadFile(folder / "status.json", kJsonLimitBytes);
    CheckJsonBounds(text, {});
  } catch (const Error&) {
    return std::nullopt;  // no run, or one that never started
  }
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto text_of = [&](const char* field) {
    const auto it = json.find(field);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  return RunProgress{.state = text_of("state"), .heartbeat = text_of("heartbeat")};
}

std::vector<MetricLine> ReadMetrics(const fs::path& folder) {
  const std::string text = ReadLinesFile(folder / "metrics.jsonl", {.bytes = kRecordsLimitBytes});
  std::vector<MetricLine> lines;
  for (const std::string& row : Split(text, '\n')) {
    const Json json = RecordOf(row);
    if (!json.is_object() || !json.contains("iter") || !json["iter"].is_number_integer()) continue;
    const auto iteration = json["iter"].get<int64_t>();
    if (json.contains("event")) {
      const bool keeps_tests = json["event"] == kResume;
      if (keeps_tests || json["event"] == kResumeInTest) {
        std::erase_if(lines, [&](const MetricLine& line) { return IsSuperseded(line, iteration, keeps_tests); });
      }
      continue;
    }
    MetricLine line{.iteration = iteration, .epoch = 0, .clock_s = {}, .split = {}, .metrics = {}};
    for (const auto& [key, value] : json.items()) {
      if (key == "iter" || key == "time" || key == "finite") continue;
      if (key == "split" && value.is_string()) line.split = value.get<std::string>();
      if (key == "epoch" && value.is_number()) line.epoch = value.get<double>();
      if (key == "clock_s" && value.is_number()) line.clock_s = value.get<double>();
      if (key == "split" || key == "epoch" || key == "clock_s") continue;
      if (value.is_number()) line.metrics.emplace_back(key, value.get<double>());
      if (value.is_null()) line.metrics.emplace_back(key, std::numeric_limits<double>::quiet_NaN());
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace moka

// Rows are run in turns over tensors of their own, so that a disturbance of the machine meets all of them; the least
// time counts. The kernel's accounting of the run queue tells times that were taken under load, which are marked.
#include "graph/kernel_search.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "core/threads/run_queue.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace moka {
namespace {

constexpr int kMinRuns = 3;
constexpr int kMaxRuns = 15;
constexpr double kEnoughMs = 30;  // of runs of one row
constexpr double kSmallGain = 0.03;
// Under load: the share of the time that a thread of this process waited for a CPU, on average, or by which a row's
// second best run took longer than its best, where the clock and the caches alone do not explain it.
constexpr double kLoadedShare = 0.05;
constexpr double kLoadedSpread = 0.3;
constexpr double kSteadyMs = 0.1;
constexpr std::string_view kLoaded = " loaded";
constexpr int64_t kMostText = int64_t{16} << 20;  // of the file: some ten thousand nets' times

// Everything a kernel's time depends on.
std::string KeyOf(const KernelDef& row, const KernelQuery& query) {
  std::string key = StrCat(row.name, " ", query.node.op->name, query.node.attributes.ToString(), " ", ThreadCount(),
                           query.deterministic ? " threads" : " threads, any order");
  for (const TensorType& type : query.inputs) key += " " + type.ToString();
  key += " ->";
  for (const TensorType& type : query.outputs) key += " " + type.ToString();
  return key;
}

// A kernel on memory of its own.
struct Contestant {
  std::unique_ptr<Kernel> kernel;
  Buffer scratch;
  double best_ms = std::numeric_limits<double>::infinity();
  double second_ms = std::numeric_limits<double>::infinity();
  double total_ms = 0;
  int runs = 0;

  bool IsDone() const {
    return kernel->IsReference() || runs >= kMaxRuns || (runs >= kMinRuns && total_ms >= kEnoughMs);
  }
  bool IsUnsteady() const { return runs > 1 && best_ms > kSteadyMs && second_ms > best_ms * (1 + kLoadedSpread); }
  void Run(bool counts) {
    const auto begin = std::chrono::steady_clock::now();
    kernel->Run();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (!counts) return;
    second_ms = std::min(second_ms, std::max(best_ms, ms));
    best_ms = std::min(best_ms, ms);
    total_ms += ms;
    ++runs;
  }
};

std::vector<OwnedTensor> MakeTensors(std::span<const TensorType> types) {
  std::vector<OwnedTensor> tensors;
  for (const TensorType& type : types) {
    tensors.emplace_back(type);
    // Pages that were never written would all be one page, in the cache; one exact value keeps denormals away.
    if (type.dtype != DType::kFloat32) continue;
    const std::span<float> values = tensors.back().as<float>();
    std::fill(values.begin(), values.end(), 0.5F);
  }
  return tensors;
}

std::vector<Tensor> Views(const std::vector<OwnedTensor>& tensors) {
  std::vector<Tensor> views;
  views.reserve(tensors.size());
  for (const OwnedTensor& tensor : tensors) views.push_back(tensor.tensor());
  return views;
}

struct Measured {
  std::vector<double> best_ms;
  bool is_loaded = false;
};

Measured Measure(std::span<const KernelDef* const> rows, const KernelQuery& query, const std::function<void()>& pulse) {
  const std::vector<OwnedTensor> inputs = MakeTensors(query.inputs);
  const std::vector<OwnedTensor> outputs = MakeTensors(query.outputs);
  const std::vector<Tensor> in = Views(inputs);
  const std::vector<Tensor> out = Views(outputs);
  std::vector<Contestant> contestants(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    Contestant& c = contestants[i];
    c.kernel = rows[i]->make(query);
    if (c.kernel->IsReference()) continue;
    c.scratch = Buffer::Allocate(c.kernel->scratch_bytes());
    c.kernel->Bind({in, out, c.scratch.data()});
    c.Run(false);
  }
  const auto is_done = [](const Contestant& c) { return c.IsDone(); };
  const std::optional<int64_t> queued_before_ns = ProcessQueuedNs();
  while (!std::all_of(contestants.begin(), contestants.end(), is_done)) {
    for (Contestant& c : contestants) {
      if (pulse) pulse();
      if (!c.IsDone()) c.Run(true);
    }
  }
  const std::optional<int64_t> queued_ns = ProcessQueuedNs();
  Measured measured;
  double total_ms = 0;
  for (const Contestant& c : contestants) {
    measured.best_ms.push_back(c.best_ms);
    total_ms += c.total_ms;
    measured.is_loaded = measured.is_loaded || c.IsUnsteady();
  }
  if (queued_ns && queued_before_ns) {
    const double waited_ms = static_cast<double>(*queued_ns - *queued_before_ns) * 1e-6 / ThreadCount();
    measured.is_loaded = measured.is_loaded || waited_ms > kLoadedShare * total_ms;
  }
  return measured;
}

void SayTimedUnderLoad(std::string_view file) {
  LogInfo(StrCat(
      "kernels are timed while others use the CPUs: ",
      file.empty() ? "their times are rough" : "their times are kept with a mark and taken again on an idle machine"));
}

}  // namespace

KernelSearch::KernelSearch(std::filesystem::path file, Unknown unknown, std::string_view first)
    : file_(std::move(file)), unknown_(unknown) {
  for (const std::string& line : Split(first, '\n')) Take(line, known_);
  used_ = known_;
  if (unknown_ != Unknown::kRenew) Read();
}

KernelSearch::KernelSearch(Rule rule, std::string_view first) : rule_(std::move(rule)), unknown_(Unknown::kLeave) {
  for (const std::string& line : Split(first, '\n')) Take(line, known_);
  used_ = known_;
}

std::shared_ptr<KernelSearch> KernelSearch::After(std::string_view first) const {
  if (rule_) return std::make_shared<KernelSearch>(rule_, first);
  return std::make_shared<KernelSearch>(std::filesystem::path(), Unknown::kMeasure, first);
}

bool KernelSearch::Take(std::string_view line, Times& times) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return false;
  const std::string_view key = line.substr(tab + 1);
  if (line.substr(0, tab) == "-") {
    const auto it = times.find(key);
    if (it != times.end()) times.erase(it);
    return true;
  }
  double ms = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + tab, ms);
  if (parsed.ec != std::errc{} || !(ms >= 0)) return false;
  const std::string_view mark = line.substr(0, tab).substr(static_cast<size_t>(parsed.ptr - line.data()));
  if (!mark.empty() && mark != kLoaded) return false;
  Keep(key, {ms, !mark.empty()}, times);
  return true;
}

void KernelSearch::Keep(std::string_view key, const Time& time, Times& times) {
  const auto it = times.emplace(key, time).first;
  if (it->second.is_loaded && !time.is_loaded) it->second = time;
}

// Returns the text that stands in the file behind the part already read; nothing where there is no file that this user
// may trust.
std::string KernelSearch::NewText() {
  std::error_code ignored;
  if (file_.empty() || !std::filesystem::exists(std::filesystem::symlink_status(file_, ignored))) return {};
  try {
    const OpenFile file = OpenFile::ForReadingOwn(file_);
    if (file.bytes() > kMostText) {
      throw Error(ErrorKind::kBadData, StrCat(file_.string(), " has ", BytesText(file.bytes()),
                                              ", more than the limit of ", BytesText(kMostText), "; remove it"));
    }
    std::string text(static_cast<size_t>(std::max<int64_t>(file.bytes() - read_bytes_, 0)), '\0');
    text.resize(static_cast<size_t>(file.ReadAt(read_bytes_, text.data(), std::ssize(text), file_)));
    return text;
  } catch (const Error& error) {
    LogWarning(StrCat("times of kernels are neither read nor kept: ", error.what()));
    file_.clear();
    return {};
  }
}

// The lines that are new since the last time. What this process has chosen by stays.
void KernelSearch::Read() {
  const std::string text = NewText();
  Times times;
  int64_t strange = 0;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    read_bytes_ += static_cast<int64_t>(end + 1 - begin);
    if (!Take(std::string_view(text).substr(begin, end - begin), times)) ++strange;
  }
  if (strange > 0) LogWarning(StrCat(file_.string(), ": ", strange, " lines are no times of kernels: passed over"));
  for (const auto& [key, time] : times) {
    if (!known_.contains(key) || !used_.contains(key)) Keep(key, time, known_);
  }
}

// Under a lock, so that of two processes that measured the same the second sees what the first wrote.
void KernelSearch::Append(const std::string& lines) {
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const bool takes_others = unknown_ != Unknown::kRenew;
  std::string reason;
  try {
    const OpenFile file = OpenFile::ForAppending(file_);
    bool is_written = flock(file.fd(), LOCK_EX) == 0;
    if (is_written && takes_others) Read();
    is_written = is_written && write(file.fd(), lines.data(), lines.size()) == std::ssize(lines);
    if (!is_written) reason = SystemReason();
  } catch (const Error& error) {
    reason = error.what();
  }  // and unlocked
  if (reason.empty()) {
    if (takes_others) Read();
    return;
  }
  LogWarning(StrCat("times of kernels cannot be kept in ", file_.string(), " (", reason,
                    "): the next program measures again and may choose others"));
  file_.clear();
}

std::vector<double> KernelSearch::Milliseconds(std::span<const KernelDef* const> rows, const KernelQuery& query,
                                               const std::function<void()>& pulse) {
  std::vector<std::string> keys;
  for (const KernelDef* row : rows) keys.push_back(KeyOf(*row, query));
  const auto is_wanted = [&](const std::string& key) { return IsWanted(key); };
  if (rule_) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!known_.contains(keys[i])) known_.emplace(keys[i], Time{rule_(*rows[i], query)});
    }
  } else if (unknown_ != Unknown::kLeave && std::ranges::any_of(keys, is_wanted)) {
    MeasureRows(rows, query, keys, pulse);
  }
  std::vector<double> ms;
  for (const std::string& key : keys) {
    const auto it = known_.find(key);
    const Time time = it == known_.end() ? Time{std::numeric_limits<double>::infinity()} : it->second;
    ms.push_back(time.ms);
    used_.emplace(key, time);
  }
  return ms;
}

bool KernelSearch::IsWanted(const std::string& key) const {
  const auto it = known_.find(key);
  if (it == known_.end()) return true;
  return it->second.is_loaded && !is_busy_ && !used_.contains(key);
}

void KernelSearch::MeasureRows(std::span<const KernelDef* const> rows, const KernelQuery& query,
                               const std::vector<std::string>& keys, const std::function<void()>& pulse) {
  Measured measured = Measure(rows, query, pulse);
  measured.is_loaded = measured.is_loaded && !ignores_load_;
  if (measured.is_loaded && !is_busy_) SayTimedUnderLoad(file_.native());
  is_busy_ = is_busy_ || measured.is_loaded;
  std::string lines;
  std::vector<std::pair<std::string, Time>> times;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto it = known_.find(keys[i]);
    const bool is_new = it == known_.end();
    // A time once taken stays, but for one taken under load that is now taken on an idle machine.
    if (!is_new && (measured.is_loaded || !it->second.is_loaded || used_.contains(keys[i]))) continue;
    if (unknown_ == Unknown::kRenew && is_new) lines += StrCat("-\t", keys[i], "\n");
    lines += StrCat(measured.best_ms[i], measured.is_loaded ? kLoaded : "", "\t", keys[i], "\n");
    times.emplace_back(keys[i], Time{measured.best_ms[i], measured.is_loaded});
    ++measured_;
  }
  if (!file_.empty() && !lines.empty()) Append(lines);
  for (const auto& [key, time] : times) Keep(key, time, known_);
}

std::string KernelSearch::Used() const {
  std::string lines;
  for (const auto& [key, time] : used_) lines += StrCat(time.ms, "\t", key, "\n");
  return lines;
}

size_t KernelSearch::Best(std::span<const double> milliseconds) {
  size_t best = 0;
  for (size_t i = 1; i < milliseconds.size(); ++i) {
    if (milliseconds[i] < milliseconds[best] * (1 - kSmallGain)) best = i;
  }
  return best;
}

}  // namespace moka

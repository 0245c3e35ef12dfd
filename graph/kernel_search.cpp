#include "graph/kernel_search.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>

#include "core/log.h"
#include "core/parallel.h"
#include "core/text.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace moka {
namespace {

constexpr int kMinRuns = 3;
constexpr int kMaxRuns = 15;
constexpr double kEnoughMs = 30;  // of runs of one row
constexpr double kSmallGain = 0.03;

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
  double total_ms = 0;
  int runs = 0;

  // A library's plain loops: hundreds of times slower than anything else.
  bool IsHopeless() const { return kernel->implementation().starts_with("ref"); }
  bool IsDone() const { return IsHopeless() || runs >= kMaxRuns || (runs >= kMinRuns && total_ms >= kEnoughMs); }
  void Run(bool counts) {
    const auto begin = std::chrono::steady_clock::now();
    kernel->Run();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (!counts) return;
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

std::vector<double> Measure(std::span<const KernelDef* const> rows, const KernelQuery& query,
                            const std::function<void()>& pulse) {
  const std::vector<OwnedTensor> inputs = MakeTensors(query.inputs);
  const std::vector<OwnedTensor> outputs = MakeTensors(query.outputs);
  const std::vector<Tensor> in = Views(inputs);
  const std::vector<Tensor> out = Views(outputs);
  std::vector<Contestant> contestants(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    Contestant& c = contestants[i];
    c.kernel = rows[i]->make(query);
    if (c.IsHopeless()) continue;
    c.scratch = Buffer::Allocate(c.kernel->scratch_bytes());
    c.kernel->Bind({in, out, c.scratch.data()});
    c.Run(false);
  }
  const auto is_done = [](const Contestant& c) { return c.IsDone(); };
  while (!std::all_of(contestants.begin(), contestants.end(), is_done)) {
    for (Contestant& c : contestants) {
      if (pulse) pulse();
      if (!c.IsDone()) c.Run(true);
    }
  }
  std::vector<double> best;
  best.reserve(contestants.size());
  for (const Contestant& c : contestants) best.push_back(c.best_ms);
  return best;
}

}  // namespace

KernelSearch::KernelSearch(std::filesystem::path file, Unknown unknown, std::string_view first)
    : file_(std::move(file)), unknown_(unknown) {
  for (const std::string& line : Split(first, '\n')) Take(line, known_);
  used_ = known_;
  if (unknown_ != Unknown::kRenew) Read();
}

void KernelSearch::Take(std::string_view line, Times& times) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return;
  const std::string_view key = line.substr(tab + 1);
  if (line.substr(0, tab) == "-") {
    const auto it = times.find(key);
    if (it != times.end()) times.erase(it);
    return;
  }
  double ms = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + tab, ms);
  if (parsed.ec != std::errc{} || parsed.ptr != line.data() + tab || !(ms >= 0)) return;
  times.emplace(key, ms);
}

// The lines that are new since the last time. What this process knows stays: it may have chosen by it.
void KernelSearch::Read() {
  std::ifstream stream(file_);
  stream.seekg(read_bytes_);
  Times times;
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    read_bytes_ += static_cast<int64_t>(line.size()) + 1;
    Take(line, times);
  }
  known_.merge(times);
}

// Under a lock, so that of two processes that measured the same the second sees what the first wrote.
void KernelSearch::Append(const std::string& lines) {
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const int fd = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  bool written = fd >= 0 && flock(fd, LOCK_EX) == 0;
  const bool takes_others = unknown_ != Unknown::kRenew;
  if (written && takes_others) Read();
  written = written && write(fd, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
  const int error = errno;
  if (fd >= 0) close(fd);  // and unlocks
  if (written) {
    if (takes_others) Read();
    return;
  }
  LogWarning(StrCat("times of kernels cannot be kept in ", file_.string(), " (", std::strerror(error),
                    "): the next program measures again and may choose others"));
  file_.clear();
}

std::vector<double> KernelSearch::Milliseconds(std::span<const KernelDef* const> rows, const KernelQuery& query,
                                               const std::function<void()>& pulse) {
  std::vector<std::string> keys;
  for (const KernelDef* row : rows) keys.push_back(KeyOf(*row, query));
  const auto is_known = [&](const std::string& key) { return known_.contains(key); };
  if (unknown_ != Unknown::kLeave && !std::all_of(keys.begin(), keys.end(), is_known)) {
    const std::vector<double> measured = Measure(rows, query, pulse);
    std::string lines;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (is_known(keys[i])) continue;
      if (unknown_ == Unknown::kRenew) lines += StrCat("-\t", keys[i], "\n");
      lines += StrCat(measured[i], "\t", keys[i], "\n");
      ++measured_;
    }
    if (!file_.empty()) Append(lines);
    for (size_t i = 0; i < rows.size(); ++i) known_.emplace(keys[i], measured[i]);
  }
  std::vector<double> ms;
  for (const std::string& key : keys) {
    ms.push_back(is_known(key) ? known_.at(key) : std::numeric_limits<double>::infinity());
    used_.emplace(key, ms.back());
  }
  return ms;
}

std::string KernelSearch::Used() const {
  std::string lines;
  for (const auto& [key, ms] : used_) lines += StrCat(ms, "\t", key, "\n");
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

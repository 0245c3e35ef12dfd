// Reads the kernel's own accounting: a clock alone could not tell waiting for a CPU from work.
#include "core/threads/run_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace moka {
namespace {

// The second of the numbers "RUN QUEUED SLICES".
std::optional<int64_t> QueuedNsIn(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 96> text{};
  const ssize_t bytes = read(fd, text.data(), text.size());
  close(fd);
  if (bytes <= 0) return std::nullopt;
  const std::string_view line(text.data(), static_cast<size_t>(bytes));
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  int64_t queued_ns = 0;
  const auto parsed = std::from_chars(line.data() + space + 1, line.data() + line.size(), queued_ns);
  return parsed.ec == std::errc() ? std::optional(queued_ns) : std::nullopt;
}

}  // namespace

std::optional<int64_t> ThreadQueuedNs() { return QueuedNsIn("/proc/thread-self/schedstat"); }

std::optional<int64_t> ProcessQueuedNs() {
  std::optional<int64_t> queued_ns;
  std::error_code code;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", code)) {
    const std::optional<int64_t> own_ns = QueuedNsIn((task.path() / "schedstat").c_str());
    if (own_ns) queued_ns = queued_ns.value_or(0) + *own_ns;
  }
  return queued_ns;
}

std::optional<double> IdleSeconds(const std::vector<int>& cpus) {
  std::ifstream file("/proc/stat");
  size_t found = 0;
  int64_t ticks = 0;
  for (std::string line; found < cpus.size() && std::getline(file, line);) {
    if (!line.starts_with("cpu")) continue;
    // "cpu7 USER NICE SYSTEM IDLE IOWAIT ..."; the first line, "cpu  ...", is of all.
    std::istringstream words(line.substr(3));
    int cpu = -1;
    int64_t user = 0;
    int64_t nice = 0;
    int64_t system = 0;
    int64_t idle = 0;
    int64_t waiting = 0;
    if (line[3] == ' ' || !(words >> cpu >> user >> nice >> system >> idle >> waiting)) continue;
    if (std::ranges::find(cpus, cpu) == cpus.end()) continue;
    ++found;
    ticks += idle + waiting;
  }
  if (found < cpus.size()) return std::nullopt;
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace moka

#include "core/run_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
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

}  // namespace moka

// One mutex orders the lines of all threads and the status line, which is cleared before a line and drawn again behind
// it. The first failed write to the log file is kept and told at the end.
#include "core/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "core/error.h"
#include "core/log_file.h"
#include "core/open_file.h"
#include "core/quiet_scope.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct LogState {
  std::mutex mutex;
  LogLevel stderr_level = LogLevel::kInfo;
  std::unique_ptr<std::FILE, CloseFile> file;
  std::filesystem::path path;
  int file_error = 0;  // errno of the first write to the file that failed
  void (*clear)() = nullptr;
  void (*redraw)() = nullptr;
  std::set<std::string, std::less<>> said;  // once
};

LogState& State() {
  static LogState state;  // the one logger of the process
  return state;
}

thread_local int quiet_scopes = 0;

char LetterOf(LogLevel level) { return "DIWE"[static_cast<size_t>(level)]; }

void WriteToFile(LogState& state, LogLevel level, std::string_view text, const CodePlace& where) {
  if (!state.file) return;
  const auto now = std::chrono::system_clock::now();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  std::string_view source = where.file;
  source.remove_prefix(source.rfind('/') == std::string_view::npos ? 0 : source.rfind('/') + 1);
  // syscall: gettid() has no declaration under strict C++ flags.
  const std::string line = fmt::format("{}{:%m%d %H:%M:%S}.{:06} {:5} {}:{}] {}\n", LetterOf(level),
                                       fmt::localtime(std::chrono::system_clock::to_time_t(now)), micros,
                                       syscall(SYS_gettid), source, where.line, Printable(text));
  errno = 0;
  const bool is_written =
      std::fwrite(line.data(), 1, line.size(), state.file.get()) == line.size() && std::fflush(state.file.get()) == 0;
  if (!is_written && state.file_error == 0) state.file_error = errno == 0 ? EIO : errno;
}

// A line of narration. One that cannot be written is lost: a terminal that has gone ends no work. `text` may hold what
// files and people have named, so nothing in it may command the terminal or begin a line of its own.
void WriteToStderr(std::string_view prefix, std::string_view text) {
  const std::string line = StrCat(prefix, Printable(text), "\n");
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void SetStderrLevel(LogLevel level) {
  const std::scoped_lock lock(State().mutex);
  State().stderr_level = level;
}

QuietScope::QuietScope() { ++quiet_scopes; }
QuietScope::~QuietScope() { --quiet_scopes; }
bool IsQuiet() { return quiet_scopes > 0; }

void Log(LogLevel level, std::string_view text, CodePlace where) {
  if (quiet_scopes > 0) return;
  LogState& state = State();
  const std::scoped_lock lock(state.mutex);
  if (level >= state.stderr_level) {
    if (state.clear != nullptr) state.clear();
    const std::string_view prefix = level == LogLevel::kError     ? "error: "
                                    : level == LogLevel::kWarning ? "warning: "
                                                                  : "";
    WriteToStderr(prefix, text);
    if (state.redraw != nullptr) state.redraw();
  }
  if (level >= LogLevel::kInfo) WriteToFile(state, level, text, where);
}

void LogWarningOnce(std::string_view text, CodePlace where) {
  if (quiet_scopes > 0) return;  // another says it
  {
    LogState& state = State();
    const std::scoped_lock lock(state.mutex);
    if (!state.said.emplace(text).second) return;
  }
  LogWarning(text, where);
}

void LogToTerminal(std::string_view text) {
  if (quiet_scopes > 0) return;
  const std::scoped_lock lock(State().mutex);
  if (State().stderr_level <= LogLevel::kInfo) WriteToStderr({}, text);
}

void LogToFile(std::string_view text, CodePlace where) {
  if (quiet_scopes > 0) return;
  const std::scoped_lock lock(State().mutex);
  WriteToFile(State(), LogLevel::kInfo, text, where);
}

void SetLogFile(const std::filesystem::path& path) {
  const std::scoped_lock lock(State().mutex);
  State().file.reset();
  State().file_error = 0;
  State().path = path;
  if (path.empty()) return;
  OpenFile file = OpenFile::ForAppending(path);
  State().file.reset(fdopen(file.fd(), "a"));
  if (State().file) file.Release();
  if (!State().file) throw Error(ErrorKind::kCantCreate, StrCat("cannot open the log file ", path.string()));
}

void CheckLogFile() {
  const std::scoped_lock lock(State().mutex);
  if (State().file_error == 0) return;
  throw Error(ErrorKind::kIo,
              StrCat("cannot write the log file ", State().path.string(), ": ", SystemReason(State().file_error)));
}

void SetStatusLine(void (*clear)(), void (*redraw)()) {
  const std::scoped_lock lock(State().mutex);
  State().clear = clear;
  State().redraw = redraw;
}

}  // namespace moka

// Narration. Messages go to stderr in a person's form and, when a log file is open, to it in glog's line form
// ("I1121 11:25:00.123456  1234 trainer.cpp:42] text"), which Caffe's log parsers read. Thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

namespace moka {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Least level that reaches stderr (the file gets everything from kInfo up). Default: kInfo.
void SetStderrLevel(LogLevel level);

// Where a message was written, filled in by the compiler at the call. (clang 14 lacks std::source_location.)
struct CodePlace {
  const char* file;
  int line;
  static constexpr CodePlace Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

void Log(LogLevel level, std::string_view text, CodePlace where = CodePlace::Here());
inline void LogInfo(std::string_view text, CodePlace where = CodePlace::Here()) { Log(LogLevel::kInfo, text, where); }
inline void LogWarning(std::string_view text, CodePlace where = CodePlace::Here()) {
  Log(LogLevel::kWarning, text, where);
}
// As LogWarning, the first time in a process: what is wrong with a file that is read several times is said once.
void LogWarningOnce(std::string_view text, CodePlace where = CodePlace::Here());
// To stderr only, as LogInfo does: what a person watches and no file needs.
void LogToTerminal(std::string_view text);
// To the file only: the Caffe-style lines that programs read.
void LogToFile(std::string_view text, CodePlace where = CodePlace::Here());

// Opens (append) or replaces the log file; an empty path closes it. Errors: kCantCreate.
void SetLogFile(const std::filesystem::path& path);

// While a progress bar owns the terminal's last line, messages are printed above it: `clear` wipes the bar before a
// message and `redraw` draws it again. Null functions give the line back.
void SetStatusLine(void (*clear)(), void (*redraw)());

}  // namespace moka

// Reads the source line again for the caret and expands tabs, so that the caret stands below its column.
#include "tools/cli/error_text.h"

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int kTabWidth = 8;
constexpr size_t kShownColumns = 200;

// Line `number` of a file with tabs expanded; empty if it cannot be read. A lone carriage return ends a line as well.
std::string SourceLine(const std::string& path, int number) {
  std::string line;
  try {
    constexpr int64_t kMostBytes = int64_t{64} << 20;
    std::string bytes = ReadFile(path, kMostBytes);
    for (size_t at = bytes.find('\r'); at != std::string::npos; at = bytes.find('\r', at + 1)) {
      if (at + 1 == bytes.size() || bytes[at + 1] != '\n') bytes[at] = '\n';
    }
    std::istringstream text(bytes);
    for (int i = 0; i < number; ++i) {
      if (!std::getline(text, line)) return {};
    }
  } catch (const Error&) {
    return {};
  }
  std::string expanded;
  for (const char c : line) {
    if (c == '\t') {
      expanded.append(static_cast<size_t>(kTabWidth) - expanded.size() % kTabWidth, ' ');
    } else if (c != '\r') {
      expanded += c;
    }
  }
  return expanded;
}

std::string One(const Error& error, bool color) {
  const std::string red = color ? "\x1b[1;31m" : "";
  const std::string green = color ? "\x1b[32m" : "";
  const std::string reset = color ? "\x1b[0m" : "";
  const SourcePlace& place = error.place();
  const std::string where = place.ToString();
  std::string s =
      StrCat(red, "error:", reset, " ", where.empty() ? "" : Printable(where) + ": ", Printable(error.text()), "\n");
  const std::string line = place.line > 0 ? Printable(SourceLine(place.file, place.line)) : "";
  if (!line.empty() && line.size() <= kShownColumns && place.column > 0) {
    std::string number = std::to_string(place.line);
    number.insert(0, number.size() < 5 ? 5 - number.size() : 0, ' ');
    const auto room = std::max<int64_t>(1, static_cast<int64_t>(line.size()) - place.column + 1);
    const auto run = std::clamp<int64_t>(place.length, 1, room);
    s += StrCat(number, " | ", line, "\n      | ", std::string(static_cast<size_t>(place.column - 1), ' '), green, "^",
                std::string(static_cast<size_t>(run - 1), '~'), reset, "\n");
  }
  if (!error.hint().empty()) s += StrCat("  help: ", Printable(error.hint()), "\n");
  for (const std::string& note : error.notes()) s += StrCat("  note: ", Printable(note), "\n");
  return s;
}

}  // namespace

std::string ErrorText(const Error& error, bool color) {
  const auto* list = dynamic_cast<const ErrorList*>(&error);
  if (list == nullptr) return One(error, color);
  std::string s;
  for (const Error& each : list->errors()) s += One(each, color);
  if (list->errors().size() > 1) s += StrCat(list->errors().size(), " errors; nothing was started\n");
  return s;
}

}  // namespace moka

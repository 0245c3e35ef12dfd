// Tells encodings by the byte-order mark or by where the zeros are, and refuses what is not UTF-8, as a wide text would
// read as names with holes.
#include "data/files/list_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"
#include "core/utf8.h"

namespace moka {
namespace {

using std::string_view_literals::operator""sv;

// The encoding of two or four bytes a character that text is in, by its mark or by its zeros; empty: none of these.
std::string_view WideEncodingOf(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xFE\0\0"sv) || bytes.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (bytes.starts_with("\xFF\xFE"sv) || bytes.starts_with("\xFE\xFF"sv)) return "UTF-16";
  const bool has_text = bytes.size() >= 4 && (bytes[0] == '\0') != (bytes[1] == '\0');
  return has_text && (bytes[0] == '\0') == (bytes[2] == '\0') && (bytes[1] == '\0') == (bytes[3] == '\0') ? "UTF-16"
                                                                                                          : "";
}

// Errors: kBadData at the line of bytes that are no UTF-8. Two names that differ in such bytes alone would be one in
// JSON and ONNX.
void RefuseOtherText(const std::string& bytes, const std::string& name) {
  if (IsUtf8(bytes)) return;
  int number = 0;
  for (const std::string& line : Split(bytes, '\n')) {
    ++number;
    if (IsUtf8(line)) continue;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = name, .line = number},
                StrCat("\"", Printable(Trim(line)), "\" is no UTF-8"),
                "`iconv -f latin1 -t UTF-8 FILE` makes it so, if the text is Latin-1");
  }
}

}  // namespace

void RefuseWideText(std::string_view bytes, const std::string& name) {
  const std::string_view wide = WideEncodingOf(bytes);
  if (wide.empty()) return;
  throw Error(ErrorKind::kBadData, SourcePlace{.file = name, .line = 1},
              StrCat("the text is ", wide, ", expected UTF-8"),
              StrCat("`iconv -f ", wide, " -t UTF-8 FILE` makes it so"));
}

std::string ListText(std::string bytes, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  RefuseWideText(bytes, name);
  if (bytes.starts_with(kByteOrderMark)) bytes.erase(0, kByteOrderMark.size());
  const size_t zero = bytes.find('\0');
  if (zero != std::string::npos) {
    const auto lines = std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(zero), '\n');
    throw Error(ErrorKind::kBadData, SourcePlace{.file = name, .line = static_cast<int>(lines) + 1},
                "expected lines of text, found a zero byte");
  }
  RefuseOtherText(bytes, name);
  if (bytes.find('\r') == std::string::npos) return bytes;
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_pair = bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n';
    if (!is_pair) text += bytes[i] == '\r' ? '\n' : bytes[i];
  }
  return text;
}

std::string ReadListText(const std::filesystem::path& path) {
  if (path != kStandardInput) {  // which is read once
    std::array<char, 4> begin{};
    const int64_t got = OpenFile::ForReading(path).ReadAt(0, begin.data(), std::ssize(begin), path);
    RefuseWideText({begin.data(), static_cast<size_t>(got)}, path.string());
  }
  return ListText(ReadLinesFile(path), path.string());
}

std::vector<ListTextLine> ListTextLines(const std::string& text, ListBlanks blanks) {
  std::vector<ListTextLine> lines;
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty()) continue;
    lines.push_back({blanks == ListBlanks::kKept ? line : std::string(trimmed), number});
  }
  return lines;
}

std::string RepeatedNames(const std::string& list, std::span<const NamedLine> names, std::string_view kind,
                          const std::function<std::string(size_t)>& value, std::string_view what) {
  std::unordered_map<std::string_view, size_t> first;
  first.reserve(names.size());
  int64_t repeated = 0;
  int64_t contradictory = 0;
  std::string example;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto [found, is_new] = first.emplace(names[i].name, i);
    if (is_new) continue;
    const std::string before = value ? value(found->second) : std::string();
    const std::string now = value ? value(i) : std::string();
    const bool contradicts = before != now;
    ++repeated;
    if (example.empty() || (contradicts && contradictory == 0)) {
      const auto in_brackets = [](const std::string& text) { return text.empty() ? text : StrCat(" (", text, ")"); };
      example = StrCat("\"", Printable(names[i].name), "\" in lines ", names[found->second].line, in_brackets(before),
                       " and ", names[i].line, in_brackets(now));
    }
    if (contradicts) ++contradictory;
  }
  if (repeated == 0) return {};
  return StrCat(list, ": ", repeated, repeated == 1 ? " line names a " : " lines name a ", what, " again",
                kind.empty() ? "" : StrCat(", ", contradictory, " of them with another ", kind), ": ", example,
                "; each line counts");
}

std::string RootHint(std::string_view kind, const std::filesystem::path& list, const std::filesystem::path& root,
                     const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path named = root.empty() ? path : path.lexically_relative(root);
  const std::filesystem::path beside = list.has_parent_path() ? list.parent_path() : std::filesystem::path(".");
  if (!path.is_absolute() && !named.is_absolute() && std::filesystem::exists(beside / named, ignored)) {
    return StrCat(Printable((beside / named).string()), " exists: ", kind, ":", Printable(list.string()), ",",
                  Printable(beside.string()), " reads it there");
  }
  if (path.is_absolute() || !root.empty()) return {};
  return StrCat("paths start where the program runs; ", kind, ":", Printable(list.string()),
                ",ROOT puts a folder before them");
}

std::optional<float> FloatOfText(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(value) ||
      IsBeyondFloat(value)) {
    return std::nullopt;
  }
  if (value == std::floor(value) && !IsExactFloat(value)) return std::nullopt;
  if (value != 0 && static_cast<float>(value) == 0) return std::nullopt;
  return static_cast<float>(value);
}

}  // namespace moka

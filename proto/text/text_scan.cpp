// A tokeniser of one pass: it knows strings, comments and brackets and nothing else, so that it works on texts which
// the parser refuses.
#include "proto/text/text_scan.h"

#include <algorithm>
#include <tuple>

namespace moka {
namespace {

constexpr int kTabWidth = 8;
constexpr size_t kDepthLimit = 256;  // deeper blocks are not told apart
constexpr size_t kTopFieldLimit = 256;

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

// End of the string literal that begins at `begin`: after its closing quote, or at the end of the line.
size_t StringEnd(std::string_view text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && text[i] != text[begin] && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

}  // namespace

TextPositions::TextPositions(std::string_view text) : text_(text) {
  Mark mark;
  marks_.push_back(mark);
  while (mark.offset < text_.size()) {
    Advance(mark);
    if (mark.byte_column == 0 || mark.offset - marks_.back().offset >= kStride) marks_.push_back(mark);
  }
}

void TextPositions::Advance(Mark& mark) const {
  const char c = text_[mark.offset++];
  if (c == '\n') {
    mark = {.offset = mark.offset, .line = mark.line + 1};
  } else if (c == '\t') {
    mark.byte_column += kTabWidth - mark.byte_column % kTabWidth;
    mark.column += kTabWidth - mark.column % kTabWidth;
  } else {
    ++mark.byte_column;
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (!continues) ++mark.column;
  }
}

size_t TextPositions::OffsetOf(int line, int column) const {
  const auto past =
      std::upper_bound(marks_.begin(), marks_.end(), std::tuple(line, column),
                       [](const auto& at, const Mark& m) { return at < std::tuple(m.line, m.byte_column); });
  if (past == marks_.begin()) return 0;
  Mark mark = *(past - 1);
  while (mark.offset < text_.size() && mark.line == line && mark.byte_column < column && text_[mark.offset] != '\n') {
    Advance(mark);
  }
  return mark.offset;
}

SourcePlace TextPositions::PlaceOf(const std::string& file, size_t offset, size_t length) const {
  offset = std::min(offset, text_.size());
  const auto past =
      std::upper_bound(marks_.begin(), marks_.end(), offset, [](size_t at, const Mark& m) { return at < m.offset; });
  Mark mark = *(past - 1);
  while (mark.offset < offset) Advance(mark);
  const Mark begin = mark;
  while (mark.offset < text_.size() && mark.offset < offset + length && text_[mark.offset] != '\n') Advance(mark);
  return {.file = file,
          .line = begin.line + 1,
          .column = begin.column + 1,
          .length = std::max(1, mark.column - begin.column)};
}

TextScan ScanText(std::string_view text, size_t offset) {
  TextScan scan;
  std::vector<OpenBlock> open;
  OpenBlock name;
  size_t too_deep = 0;
  bool taken = false;
  for (size_t i = 0; i < text.size();) {
    if (!taken && i >= offset) {
      scan.open = open;
      taken = true;
    }
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      i = StringEnd(text, i);
    } else if (c == '{' || c == '<') {
      if (open.size() < kDepthLimit) {
        open.push_back(name);
      } else {
        ++too_deep;
      }
      ++i;
    } else if (c == '}' || c == '>') {
      if (too_deep > 0) {
        --too_deep;
      } else if (open.empty()) {
        scan.balanced = false;
      } else {
        name = open.back();  // the next of a list of blocks has the same name
        open.pop_back();
      }
      ++i;
    } else if (IsWordChar(c)) {
      const size_t begin = i;
      while (i < text.size() && IsWordChar(text[i])) ++i;
      const size_t next = text.find_first_not_of(" \t\r\n", i);
      const bool is_field =
          next != std::string_view::npos && (text[next] == ':' || text[next] == '{' || text[next] == '<');
      if (is_field) name = {.field = text.substr(begin, i - begin), .offset = begin};
      if (is_field && open.empty() && scan.top_fields.size() < kTopFieldLimit) scan.top_fields.push_back(name);
    } else {
      ++i;
    }
  }
  if (!taken) scan.open = open;
  scan.balanced = scan.balanced && open.empty() && too_deep == 0;
  return scan;
}

size_t FindWordBefore(std::string_view text, std::string_view word, size_t offset) {
  constexpr size_t kReach = 4096;
  if (word.empty()) return std::string_view::npos;
  const size_t least = offset > kReach ? offset - kReach : 0;
  size_t end = std::min(offset, text.size());
  while (end >= least + word.size()) {
    const size_t at = text.rfind(word, end - word.size());
    if (at == std::string_view::npos || at < least) return std::string_view::npos;
    const bool begins = at == 0 || !IsWordChar(text[at - 1]);
    const bool ends = at + word.size() >= text.size() || !IsWordChar(text[at + word.size()]);
    if (begins && ends) return at;
    end = at + word.size() - 1;
  }
  return std::string_view::npos;
}

}  // namespace moka

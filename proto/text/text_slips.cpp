// One function a slip, tried in order at the parser's place. Each must be sure: a wrong guess would be worse than the
// parser's words.
#include "proto/text/text_slips.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"
#include "core/utf8.h"
#include "proto/text/schema_names.h"

namespace moka {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kSlipsNone = std::string_view::npos;
constexpr std::string_view kBlanks = " \t\r\n";

Error SlipError(const ParsedText& parsed, size_t offset, size_t length, std::string text, std::string hint = {}) {
  return {ErrorKind::kConfig, parsed.lines.PlaceOf(parsed.file, offset, length), std::move(text), std::move(hint)};
}

// Characters that editors, pages and input methods put in the place of one of ASCII.
struct LookAlike {
  uint32_t first = 0;
  uint32_t last = 0;
  std::string_view name;
  std::string_view hint;
};
constexpr LookAlike kLookAlikes[] = {
    {0x00A0, 0x00A0, "a no-break space", "write a common space"},
    {0x2000, 0x200A, "a typographic space", "write a common space"},
    {0x200B, 0x200F, "a character that is not seen", "delete it"},
    {0x2010, 0x2015, "a typographic dash", "write -"},
    {0x2018, 0x201B, "a typographic quote", "write the quote \" or '"},
    {0x201C, 0x201F, "a typographic quote", "write the quote \""},
    {0x2028, 0x2029, "a line separator", "end the line as others end"},
    {0x202A, 0x202E, "a character that is not seen", "delete it"},
    {0x202F, 0x202F, "a no-break space", "write a common space"},
    {0x2060, 0x2064, "a character that is not seen", "delete it"},
    {0x2212, 0x2212, "a minus sign of mathematics", "write -"},
    {0x3000, 0x3000, "a full-width space", "write a common space"},
    {0xFEFF, 0xFEFF, "a byte-order mark", "delete it"},
};
constexpr uint32_t kFullWidthFirst = 0xFF01;  // of "!" to "~" in full width
constexpr uint32_t kFullWidthLast = 0xFF5E;
constexpr uint32_t kFullWidthShift = 0xFEE0;

std::string CodePointName(uint32_t code) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name;
  for (int shift = code > 0xFFFFF ? 20 : code > 0xFFFF ? 16 : 12; shift >= 0; shift -= 4)
    name += kDigits[code >> shift & 0xFU];
  return "U+" + name;
}

// A byte that the language does not have outside quotes.
Error ForeignCharacter(const ParsedText& parsed, size_t offset) {
  const std::string_view rest = parsed.text.substr(std::min(offset, parsed.text.size()));
  const Character c = rest.empty() ? Character{} : CharacterAt(rest, 0);
  if (c.bytes == 0) {
    return SlipError(parsed, offset, 1, StrCat("the byte ", Printable(rest.substr(0, 1)), " is no character of UTF-8"),
                     "save the file as UTF-8");
  }
  const auto code = static_cast<uint32_t>(c.code);
  std::string name = code < 0xA0 ? "a control character" : "";
  std::string hint =
      name.empty() ? "other characters than those of ASCII stand in quotes and comments only" : "delete it";
  if (code >= kFullWidthFirst && code <= kFullWidthLast) {
    const char plain = static_cast<char>(code - kFullWidthShift);
    name = StrCat("a full-width ", std::string(1, plain));
    hint = StrCat("write ", std::string(1, plain));
  }
  for (const LookAlike& like : kLookAlikes) {
    if (code < like.first || code > like.last) continue;
    name = like.name;
    hint = like.hint;
  }
  return SlipError(
      parsed, offset, c.bytes,
      StrCat("character ", CodePointName(code), name.empty() ? "" : StrCat(" (", name, ")"), " does not belong here"),
      hint);
}

// A backslash in a text that begins no escape: mostly a path of Windows.
Error BadEscape(const ParsedText& parsed, size_t offset) {
  const std::string_view text = parsed.text;
  const size_t slash = text.rfind('\\', std::min(offset, text.size()));
  const size_t at = slash == kSlipsNone ? offset : slash;
  return SlipError(parsed, at, 2,
                   StrCat(Printable(text.substr(std::min(at, text.size()), 2)), " in a text is no escape"),
                   "write / or \\\\ in a path: a single \\ begins an escape such as \\n");
}

// Seven of one of "<=>" at the line's start: what a merge leaves where two versions of a file differ.
std::optional<Error> MergeMark(const ParsedText& parsed, size_t offset) {
  constexpr size_t kMark = 7;
  const std::string_view text = parsed.text;
  const size_t newline = offset == 0 ? kSlipsNone : text.rfind('\n', offset - 1);
  const size_t begin = newline == kSlipsNone ? 0 : newline + 1;
  const std::string_view mark = text.substr(std::min(begin, text.size()), kMark);
  if (offset >= begin + kMark || (mark != "<<<<<<<" && mark != "=======" && mark != ">>>>>>>" && mark != "|||||||"))
    return std::nullopt;
  return SlipError(parsed, begin, kMark, StrCat("\"", mark, "\" is the mark of a merge that was not finished"),
                   "keep one of the two versions and delete the marks");
}

bool IsNumberChar(char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'; }

// The numbers from `begin` on, apart by blanks and commas, on one line.
std::vector<std::string> NumbersFrom(std::string_view text, size_t begin) {
  constexpr size_t kMost = 16;
  std::vector<std::string> numbers;
  for (size_t at = begin; at < text.size() && numbers.size() < kMost;) {
    at = text.find_first_not_of(" \t,", at);
    if (at == kSlipsNone) break;
    size_t end = at;
    while (end < text.size() && IsNumberChar(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (!IsNumber(word)) break;
    numbers.emplace_back(word);
    at = end;
  }
  return numbers;
}

// A block for a field that takes one value ("net { }" in a solver).
std::optional<Error> BlockForValue(const ParsedText& parsed, size_t offset) {
  const Descriptor* type = BlockTypeAt(parsed.text, offset, parsed.root);
  const std::string name(NameBefore(parsed.text, offset));
  const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(name);
  if (field == nullptr || field->message_type() != nullptr) return std::nullopt;
  const FieldDescriptor* block = type->FindFieldByName(name + "_param");
  return SlipError(parsed, offset, 1, StrCat("field \"", name, "\" takes ", TakenBy(*field), ", found a block"),
                   block == nullptr || block->message_type() == nullptr
                       ? StrCat("write ", name, ": and the value")
                       : StrCat("the block for it is ", block->name(), " { }"));
}

}  // namespace

bool IsNumber(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, IsNumberChar) &&
         std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view NameBefore(std::string_view text, size_t colon) {
  const size_t last = colon == 0 ? kSlipsNone : text.find_last_not_of(kBlanks, colon - 1);
  if (last == kSlipsNone) return {};
  const size_t before = text.find_last_of(" \t\r\n{};,<>[]", last);
  const size_t begin = before == kSlipsNone ? 0 : before + 1;
  return text.substr(begin, last + 1 - begin);
}

const Descriptor* BlockTypeAt(std::string_view text, size_t offset, const Descriptor* root) {
  const Descriptor* type = root;
  for (const OpenBlock& block : ScanText(text, offset).open) {
    const FieldDescriptor* field = type->FindFieldByName(std::string(block.field));
    type = field == nullptr ? nullptr : field->message_type();
    if (type == nullptr) return nullptr;
  }
  return type;
}

std::string PathHint(std::string_view path) {
  if (path == "~" || path.starts_with("~/")) return "~ is not expanded here: write the whole path";
  if (path.find('$') != kSlipsNone) return "variables such as $HOME are not expanded here: write the whole path";
  if (std::ranges::any_of(path, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    return "a single \\ begins an escape such as \\t: write / or \\\\ in a path";
  const bool has_blank = !path.empty() && (path.front() == ' ' || path.back() == ' ');
  if (has_blank) return "the path begins or ends with a blank: delete it";
  if (path.size() > 1 && path[1] == ':') return "this is a path of Windows: write the path here";
  return {};
}

std::optional<Error> FurtherValue(const ParsedText& parsed, size_t offset) {
  const std::string_view text = parsed.text;
  size_t end = std::min(offset, text.size());
  while (end < text.size() && IsNumberChar(text[end])) ++end;
  const std::string word(text.substr(std::min(offset, text.size()), end - std::min(offset, text.size())));
  const size_t colon = offset == 0 ? kSlipsNone : text.rfind(':', offset - 1);
  if (!IsNumber(word) || colon == kSlipsNone) return std::nullopt;
  const std::vector<std::string> numbers = NumbersFrom(text, colon + 1);
  if (numbers.size() < 2 || text.substr(colon, offset - colon).find_first_of("\n#") != kSlipsNone) return std::nullopt;
  const std::string name(NameBefore(text, colon));
  const Descriptor* type = BlockTypeAt(parsed.text, offset, parsed.root);
  const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(name);
  if (field == nullptr) return std::nullopt;
  const bool takes_more = field->is_repeated();
  return SlipError(parsed, offset, word.size(),
                   StrCat("a further value ", word, " of field \"", name, "\"",
                          takes_more ? " without brackets" : ", which takes one"),
                   takes_more ? StrCat("write ", name, ": [", Join(numbers, ", "), "]") : "");
}

std::optional<Error> SlipAt(const ParsedText& parsed, const ParserComplaint& complaint) {
  const std::string_view message = complaint.message;
  const size_t offset = parsed.lines.OffsetOf(complaint.line, complaint.column);
  if (message.starts_with("Interpreting non ascii") || message.starts_with("Invalid control characters"))
    return ForeignCharacter(parsed, offset);
  if (message.find("escape sequence") != kSlipsNone) return BadEscape(parsed, offset);
  if (std::optional<Error> mark = MergeMark(parsed, offset)) return mark;
  if (message.starts_with("Expected \":\"") && parsed.text.substr(offset).starts_with("{"))
    return BlockForValue(parsed, offset);
  if (message.starts_with("Expected identifier")) return FurtherValue(parsed, offset);
  return std::nullopt;
}

}  // namespace moka

// The parser rounds to float32 without a word, so the text's numbers are read once more beside it.
#include "proto/text/lost_numbers.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <vector>

#include "core/text.h"
#include "proto/text/text_slips.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;

constexpr size_t kMaxLooked = 1000;  // numbers whose field is looked for, each by a reading of the text

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Whether the word is a number that is not 0 and that float32 makes 0.
bool IsLost(std::string_view word) {
  double value = 0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end == word.data()) return false;
  // A number that no double holds either is told apart from a large one by its exponent's sign.
  if (fault == std::errc::result_out_of_range) return word.find("e-") != word.npos || word.find("E-") != word.npos;
  return value != 0 && static_cast<float>(value) == 0.0F;
}

// The end of a word of a number's characters that begins at `begin`; a sign belongs to it after an exponent's e only.
size_t NumberEnd(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size()) {
    const bool is_sign = (text[end] == '-' || text[end] == '+') && (text[end - 1] == 'e' || text[end - 1] == 'E');
    if (!IsWordChar(text[end]) && !(is_sign && end > begin)) break;
    ++end;
  }
  return end;
}

bool IsFloatField(std::string_view text, size_t offset, const google::protobuf::Descriptor* root) {
  const size_t colon = text.rfind(':', offset);
  const google::protobuf::Descriptor* type = BlockTypeAt(text, offset, root);
  if (colon == std::string_view::npos || type == nullptr) return false;
  const FieldDescriptor* field = type->FindFieldByName(std::string(NameBefore(text, colon)));
  return field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
}

}  // namespace

std::vector<LostNumber> LostNumbers(std::string_view text, const google::protobuf::Descriptor* root) {
  std::vector<LostNumber> lost;
  size_t looked = 0;
  for (size_t i = 0; i < text.size() && looked < kMaxLooked; ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c && text[i] != '\n'; ++i) i += text[i] == '\\' ? 1 : 0;
    } else if (IsWordChar(c)) {
      const size_t end = NumberEnd(text, i);
      const std::string_view word = text.substr(i, end - i);
      const bool is_number = (c >= '0' && c <= '9') || c == '.';
      if (is_number && IsLost(word)) {
        ++looked;
        if (IsFloatField(text, i, root)) lost.push_back({.offset = i, .word = word});
      }
      i = end - 1;
    }
  }
  return lost;
}

std::string LostNumberText(std::string_view word) {
  return StrCat(Printable(word), " is nearer to 0 than any float32, which would make it 0");
}

std::string LostNumberHint() { return StrCat("write 0, or at least ", std::numeric_limits<float>::min()); }

}  // namespace moka

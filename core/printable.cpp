// Replaces what a terminal obeys by visible escapes, character by character of UTF-8, and bytes that are no UTF-8 by
// their hexadecimal form.
#include "core/printable.h"

#include <algorithm>

#include "core/text.h"
#include "core/utf8.h"

namespace moka {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

// A character that a terminal obeys instead of showing it: control characters of both sets, separators of lines and
// paragraphs, and those that turn the direction of what follows (Unicode Technical Report 36, section 2.3).
bool IsCommand(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string PrintableBut(std::string_view kept, std::string_view text) {
  std::string s;
  for (size_t i = 0; i < text.size();) {
    const Character character = CharacterAt(text, i);
    const bool is_shown =
        character.bytes > 0 && (!IsCommand(character.code) || kept.find(text[i]) != std::string_view::npos);
    const size_t length = std::max<size_t>(character.bytes, 1);
    for (const char byte : text.substr(i, length)) {
      if (is_shown) {
        s += byte;
        continue;
      }
      s += "\\x";
      s += kHex[static_cast<unsigned char>(byte) >> 4U];
      s += kHex[static_cast<unsigned char>(byte) & 15U];
    }
    i += length;
  }
  return s;
}

std::string Printable(std::string_view text) { return PrintableBut({}, text); }

std::string PrintableJson(std::string_view json) {
  std::string s;
  for (size_t i = 0; i < json.size();) {
    const Character character = CharacterAt(json, i);
    const size_t length = std::max<size_t>(character.bytes, 1);
    // Below a space JSON has only line ends and blanks of its own, and none inside of a string.
    if (character.code < 0x20 || !IsCommand(character.code)) {
      s += json.substr(i, length);
    } else {
      s += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) s += kHex[character.code >> static_cast<unsigned>(shift) & 15U];
    }
    i += length;
  }
  return s;
}

}  // namespace moka

// Reading and writing characters of UTF-8 text (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moka {

struct Character {
  char32_t code = 0;
  size_t bytes = 0;  // 0: what stands there is no UTF-8
};
// The character at a byte of the text: shortest forms only, no surrogates, up to U+10FFFF.
// Requires: at < text.size().
Character CharacterAt(std::string_view text, size_t at);

// True if all of the text is valid UTF-8.
bool IsUtf8(std::string_view text);

// Appends a code point in UTF-8.
void AppendCharacter(char32_t code, std::string& text);

}  // namespace moka

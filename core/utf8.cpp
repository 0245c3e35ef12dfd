// Decodes by the lead byte's length and refuses what RFC 3629 forbids: overlong forms, surrogates and code points above
// U+10FFFF.
#include "core/utf8.h"

#include <array>
#include <cstdint>

namespace moka {

Character CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < bytes) return {};
  char32_t code = lead & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast.at(bytes) || is_surrogate || code > 0x10FFFF) return {};
  return {code, bytes};
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterAt(text, at).bytes;
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

void AppendCharacter(char32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  constexpr std::array<uint32_t, 4> kLeads = {0, 0xC0, 0xE0, 0xF0};
  const uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>(kLeads.at(more) | code >> 6U * more);
  for (uint32_t i = more; i > 0; --i) text += static_cast<char>(0x80U | (code >> 6U * (i - 1) & 0x3FU));
}

}  // namespace moka

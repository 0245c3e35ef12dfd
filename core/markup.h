// Text as part of HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// The text in its printable form (core/text.h), with what means something in markup escaped: safe between tags and in
// an attribute's quotes of either kind.
std::string MarkupText(std::string_view text);

// Bytes in Base64 (RFC 4648), as a data: address holds them.
std::string Base64(std::string_view bytes);

}  // namespace moka

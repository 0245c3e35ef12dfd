// Text that a terminal shows and does not obey: Printable of core/text.h, and the same for text of several lines.
#pragma once

#include <string>
#include <string_view>

namespace moka {

// Printable, but the given ASCII characters, such as line ends, stay.
std::string PrintableBut(std::string_view kept, std::string_view text);

// JSON as valid JSON of the same value in which \uNNNN stands for what Printable would escape; its own line ends stay.
// Requires: valid JSON.
std::string PrintableJson(std::string_view json);

}  // namespace moka

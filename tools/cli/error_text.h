// How an error looks on a terminal: message, source line, caret, hint.
#pragma once

#include <string>

#include "core/error.h"

namespace moka {

// "error: net.prototxt:14:3: text", the source line with a caret run under the place, "did you mean ...", notes.
// `color` adds escape codes. Ends with a newline.
std::string ErrorText(const Error& error, bool color);

}  // namespace moka

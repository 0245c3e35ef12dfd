// A look at a JSON text before it is parsed: a parsed value takes many times the bytes that it is written with ("[],"
// about 100), and deep nesting is walked by recursion afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moka {

struct JsonBounds {
  int depth = 64;
  int64_t values = int64_t{1} << 21;  // about 400 MiB of the dearest kind
};

// Errors: kBadData naming the file (if there is one) when the text nests deeper or has more values. Whether it is JSON
// at all is not looked at.
void CheckJsonBounds(std::string_view text, const std::string& file, const JsonBounds& bounds = {});

}  // namespace moka

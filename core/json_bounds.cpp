// One pass over the characters with a depth and a count of values, outside of strings; no tree is built.
#include "core/json_bounds.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {

void CheckJsonBounds(std::string_view text, const std::string& file, const JsonBounds& bounds) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kBadData, StrCat(file, file.empty() ? "" : ": ", what));
  };
  int depth = 0;
  int64_t values = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {  // to the end of the string
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > bounds.depth) fail(StrCat("JSON that is nested more than ", bounds.depth, " deep"));
    } else if (c == ']' || c == '}') {
      depth = std::max(0, depth - 1);
    } else if (c == ',') {
      ++values;
    }
    if (values > bounds.values) fail(StrCat("JSON of more than ", bounds.values, " values"));
  }
}

}  // namespace moka

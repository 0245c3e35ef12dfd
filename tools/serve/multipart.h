// The file of a request: its body, or the one file of a form (multipart/form-data, RFC 7578).
#pragma once

#include <string>

#include "tools/serve/http_message.h"

namespace moka {

struct SentFile {
  std::string name;  // as the form or the address calls it; empty: neither does
  std::string bytes;
};

// `name` is the address's. Errors: kBadData for a form that is broken or has no file or several.
SentFile SentFileOf(HttpRequest& request, const std::string& name);

}  // namespace moka

// Forms with a file, by the boundary B, and addresses.
#include "core/text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/serve/call_address.h"
#include "tools/serve/multipart.h"

namespace moka {

FuzzTarget HttpFormFuzz() {
  return {"http_form", [](std::string_view bytes) {
            for (const std::string& part : PathParts(std::string(bytes))) {
              if (part.size() > bytes.size()) std::abort();
            }
            HttpRequest request;
            const size_t line = bytes.find('\n');
            request.headers = {{"content-type", StrCat("multipart/form-data; boundary=", bytes.substr(0, line))}};
            request.body = std::string(bytes.substr(line == std::string_view::npos ? 0 : line + 1));
            const size_t most = request.body.size();
            if (SentFileOf(request, "").bytes.size() > most) std::abort();
          }};
}

}  // namespace moka

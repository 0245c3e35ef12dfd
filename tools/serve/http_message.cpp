// A request has few headers, so they are looked for one by one.
#include "tools/serve/http_message.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace moka {

std::string_view HttpRequest::Header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

HttpAnswer HttpErrorAnswer(int status, const std::string& error, const std::string& hint) {
  nlohmann::ordered_json json = {{"error", error}};
  if (!hint.empty()) json["hint"] = hint;
  return {.status = status, .body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

HttpAnswer HttpBusyAnswer(int status, const std::string& error, const std::string& hint, int64_t seconds) {
  HttpAnswer answer = HttpErrorAnswer(status, error, hint);
  answer.headers.emplace_back("Retry-After", StrCat(seconds));
  return answer;
}

}  // namespace moka

// A request has few headers, so they are looked for one by one.
#include "tools/serve/http_message.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace moka {

std::string_view HttpRequest::Header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

AcceptedMedia AcceptedOf(std::string_view accept, std::string_view media) {
  const std::string type = StrCat(media.substr(0, media.find('/')), "/*");
  double quality = 0;
  size_t best = 0;  // how nearly the entry that counts names it: 1 for */*, 2 for type/*, 3 for itself
  for (const std::string& entry : Split(std::string(accept), ',')) {
    const std::vector<std::string> parts = Split(entry, ';');
    const std::string range = AsciiLower(std::string(Trim(parts[0])));
    const size_t nearness = range == media ? 3 : range == type ? 2 : range == "*/*" ? 1 : 0;
    if (nearness <= best) continue;
    best = nearness;
    quality = 1;
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::string parameter = AsciiLower(std::string(Trim(parts[i])));
      if (!parameter.starts_with("q=")) continue;
      const auto [end, fault] = std::from_chars(parameter.data() + 2, parameter.data() + parameter.size(), quality);
      if (fault != std::errc() || end != parameter.data() + parameter.size()) quality = 1;
    }
  }
  return {.quality = quality, .is_named = best > 1};
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

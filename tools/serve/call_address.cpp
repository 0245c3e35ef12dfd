// Splits a path at its slashes, undoes %XX, and finds the model and the verb.
#include "tools/serve/call_address.h"

#include <cstddef>
#include <utility>

namespace moka {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::vector<std::string> PathParts(const std::string& path) {
  std::vector<std::string> parts;
  if (!path.starts_with('/')) return {""};
  std::string part;
  for (size_t i = 1; i < path.size(); ++i) {
    if (path[i] == '/') {
      parts.push_back(std::exchange(part, {}));
    } else if (path[i] != '%') {
      part += path[i];
    } else {
      const int high = i + 2 < path.size() ? HexDigit(path[i + 1]) : -1;
      const int low = i + 2 < path.size() ? HexDigit(path[i + 2]) : -1;
      if (high < 0 || low < 0) return {""};
      part += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

std::optional<ModelCall> ModelCallOf(const std::vector<std::string>& parts) {
  const bool is_of_model = parts.size() >= 3 && parts[0] == "v2" && parts[1] == "models";
  if (!is_of_model || (parts[2] == "stats" && parts.size() == 3)) return std::nullopt;
  ModelCall call{.name = parts[2]};
  size_t at = 3;
  if (parts.size() > 4 && parts[3] == "versions") {
    call.version = parts[4];
    at = 5;
  }
  if (at < parts.size()) call.verb = parts[at++];
  if (at < parts.size() && call.verb == "predict") call.file = parts[at++];
  if (at < parts.size()) call.verb = "?";  // there is nothing so deep
  return call;
}

}  // namespace moka

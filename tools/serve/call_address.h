// Addresses of the server: the parts of a path, and the model and the verb among them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moka {

// An address, split at its slashes and with %XX undone; "" where it is malformed.
std::vector<std::string> PathParts(const std::string& path);

// A call of one model: /v2/models/NAME[/versions/VERSION][/VERB[/FILE]].
struct ModelCall {
  std::string name;
  std::string version = {};
  std::string verb = {};  // "infer"; empty: its facts
  std::string file = {};  // that predict calls what is sent
  bool AsksNet() const { return verb == "infer" || verb == "predict"; }
};

// Nothing for calls of no one model.
std::optional<ModelCall> ModelCallOf(const std::vector<std::string>& parts);

}  // namespace moka

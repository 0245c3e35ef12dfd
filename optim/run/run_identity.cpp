// Reads run.json leniently, as whoever opens the run has told its faults already.
#include "optim/run/run_identity.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "optim/run/run_records.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

std::map<std::string, std::string> TextsOf(const Json& object) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) texts[key] = value.get<std::string>();
  }
  return texts;
}

RunIdentity IdentityIn(const Json& json) {
  RunIdentity identity{.more = TextsOf(json)};
  const auto threads = json.find("threads");
  const bool is_whole = threads != json.end() && threads->is_number_integer();
  if (is_whole && *threads >= 1 && *threads <= INT32_MAX) identity.threads = threads->get<int>();
  const auto data = json.find("data");
  if (data != json.end() && data->is_object()) identity.data = TextsOf(*data);
  return identity;
}

}  // namespace

RunIdentity IdentityOfRun(const std::filesystem::path& folder) {
  try {
    return IdentityIn(ReadRunJson(folder));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace moka

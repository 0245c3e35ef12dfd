// A run's files are JSON of a few lines; anything else in their place is refused by its name.
#include "tools/nets/run_json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/text.h"

namespace moka {

nlohmann::ordered_json JsonObjectIn(const std::filesystem::path& file) {
  const std::string text = ReadFile(file, kRunJsonLimitBytes);
  CheckJsonBounds(text, file.string());
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) throw Error(ErrorKind::kBadData, StrCat(file.string(), " is no JSON object"));
  return json;
}

}  // namespace moka

// COCO's "iscrowd", in its own annotation files and in those that are cut from them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace moka {

// Whether an object is a crowd: 0, 1, false or true; it is none where the flag is null or is not there. None for any
// other value.
inline std::optional<bool> CrowdFlagOf(const nlohmann::json& object) {
  const auto flag = object.find("iscrowd");
  if (flag == object.end() || flag->is_null()) return false;
  if (flag->is_boolean()) return flag->get<bool>();
  if (!flag->is_number() || (*flag != 0 && *flag != 1)) return std::nullopt;
  return *flag == 1;
}

}  // namespace moka

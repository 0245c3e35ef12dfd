// COCO's "iscrowd" and "ignore", in its own annotation files and in those that are cut from them.
#pragma once

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"

namespace moka {

// Whether an object is a crowd, or marked to be ignored, which measures and trainings treat alike: each flag is 0, 1,
// false or true, and is not set where it is null or is not there. Errors: kBadData for any other value.
inline bool CrowdFlagOf(const nlohmann::json& object) {
  bool is_set = false;
  for (const char* key : {"iscrowd", "ignore"}) {
    const auto flag = object.find(key);
    if (flag == object.end() || flag->is_null()) continue;
    const bool is_number = flag->is_number() && (*flag == 0 || *flag == 1);
    if (!flag->is_boolean() && !is_number) {
      constexpr size_t kMost = 100;
      throw Error(
          ErrorKind::kBadData,
          StrCat("its ", key, " is ", Printable(flag->dump(-1, ' ', true).substr(0, kMost)), ", expected 0 or 1"));
    }
    is_set = is_set || (flag->is_boolean() ? flag->get<bool>() : *flag == 1);
  }
  return is_set;
}

}  // namespace moka

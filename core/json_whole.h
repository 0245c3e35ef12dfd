// Numbers of JSON: whole ones, as its library makes any number of any other without a word (2.5 becomes 2, and 1e30 as an
// int is undefined), and those that are none, as JSON has no infinity.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"

namespace moka {

// Json: a value of nlohmann's library. Errors: kBadData for what is no whole number that Whole holds.
template <class Whole, class Json>
Whole JsonWhole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.template get<uint64_t>();
    if (std::in_range<Whole>(number)) return static_cast<Whole>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.template get<int64_t>();
    if (std::in_range<Whole>(number)) return static_cast<Whole>(number);
  }
  throw Error(ErrorKind::kBadData,
              value.is_number() ? "a number is no whole one, or too large" : "a number is missing");
}

// The same of a key; what stands for it where an object has none.
template <class Whole, class Json>
Whole JsonWholeOr(const Json& object, const char* key, Whole otherwise) {
  const auto it = object.find(key);
  return it == object.end() ? otherwise : JsonWhole<Whole>(*it);
}

// The number; null for an infinite one and for none.
template <class Json>
Json NumberOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}
template <class Json>
Json NumberOrNull(const std::optional<double>& value) {
  return value ? NumberOrNull<Json>(*value) : Json();
}

}  // namespace moka

// Attributes of a node: named constants that parameterise an op (kernel size, axis, expression).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "core/types.h"

namespace moka {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;
using Strings = std::vector<std::string>;
using AttributeValue = std::variant<bool, int64_t, double, std::string, Ints, Doubles, Strings>;

inline Ints DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values) : values_(values) {}

  bool Has(std::string_view name) const { return values_.find(name) != values_.end(); }
  void Set(std::string name, AttributeValue value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  // Requires: the attribute is there with type T (bool, int64_t, double, std::string, Ints, Doubles or Strings).
  template <class T>
  const T& Get(std::string_view name) const {
    const auto it = values_.find(name);
    Require(it != values_.end(), StrCat("attribute ", name, " is set"));
    const T* value = std::get_if<T>(&it->second);
    Require(value != nullptr, StrCat("attribute ", name, " has the type asked for"));
    return *value;
  }
  int64_t Int(std::string_view name) const { return Get<int64_t>(name); }
  double Float(std::string_view name) const { return Get<double>(name); }
  bool Bool(std::string_view name) const { return Get<bool>(name); }
  const std::string& String(std::string_view name) const { return Get<std::string>(name); }

  const std::map<std::string, AttributeValue, std::less<>>& values() const { return values_; }
  // "{axis=1, kernel=[3,3]}", empty braces left out.
  std::string ToString() const;
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::map<std::string, AttributeValue, std::less<>> values_;
};

// One value as in Attributes::ToString: true, 3, 0.5, "text", [3,3], [0.5f,1f], ["a","b"].
std::string ToText(const AttributeValue& value);

}  // namespace moka

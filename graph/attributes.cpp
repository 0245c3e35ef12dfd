// The text of attributes, as dumps of graphs and the keys of measured kernels have it: it must not change between runs.
#include "graph/attributes.h"

namespace moka {
namespace {

std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

template <class T, class Format>
std::string ListText(const std::vector<T>& items, Format format) {
  std::string s = "[";
  for (size_t i = 0; i < items.size(); ++i) s += (i > 0 ? "," : "") + format(items[i]);
  return s + "]";
}

}  // namespace

std::string ToText(const AttributeValue& value) {
  const auto visitor = [](const auto& v) -> std::string {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
    if constexpr (std::is_same_v<T, int64_t>) return std::to_string(v);
    if constexpr (std::is_same_v<T, double>) return ToText(v);
    if constexpr (std::is_same_v<T, std::string>) return Quoted(v);
    if constexpr (std::is_same_v<T, Ints>) return ListText(v, [](int64_t i) { return std::to_string(i); });
    if constexpr (std::is_same_v<T, Doubles>) return ListText(v, [](double d) { return ToText(d); });
    if constexpr (std::is_same_v<T, Strings>) return ListText(v, Quoted);
  };
  return std::visit(visitor, value);
}

std::string Attributes::ToString() const {
  if (values_.empty()) return {};
  std::string s = "{";
  for (const auto& [name, value] : values_) s += StrCat(s.size() > 1 ? ", " : "", name, "=", ToText(value));
  return s + "}";
}

}  // namespace moka

// Whether a text is well-formed XML, as far as charts use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Returns what is wrong with the nesting of tags; empty if nothing is. Comments and sections of other kinds are wrong.
inline std::string FaultOfXml(std::string_view text) {
  std::vector<std::string> open;
  while (true) {
    const size_t begin = text.find('<');
    if (text.substr(0, begin).find('>') != std::string_view::npos) return "a bare >";
    if (begin == std::string_view::npos) break;
    const size_t end = text.find('>', begin);
    if (end == std::string_view::npos) return "a tag has no end";
    const std::string_view tag = text.substr(begin + 1, end - begin - 1);
    text.remove_prefix(end + 1);
    size_t quotes = 0;
    for (const char c : tag) quotes += c == '"' ? 1 : 0;
    if (quotes % 2 != 0 || tag.find('<') != std::string_view::npos) return "a tag is broken: " + std::string(tag);
    const std::string name(tag.substr(tag.starts_with("/") ? 1 : 0, tag.find_first_of(" \n")));
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != name) return name + " ends what is not open";
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back() + " has no end";
}

}  // namespace moka

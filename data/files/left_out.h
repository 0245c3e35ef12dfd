// The files that an import leaves out, or reads in part, by kind: how many, and the names of the first, for a warning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

class LeftOut {
 public:
  // `what`: the kind in the plural, "links".
  void Add(const std::string& what, std::string_view name);
  // A sentence each kind, in their order: "left out, links: 4 (a, b, c, ...)".
  std::vector<std::string> Sentences(std::string_view done = "left out") const;

 private:
  struct Kind {
    int64_t count = 0;
    std::vector<std::string> first;  // a few, as a terminal may show them
  };
  std::map<std::string, Kind> kinds_;
};

}  // namespace moka

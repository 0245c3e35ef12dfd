// The findings of a check of data: what is wrong, how grave it is, where, and what to do.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moka {

enum class Severity : uint8_t {
  kError,    // an import ends at it: training cannot start
  kWarning,  // training can start, and may learn or measure something else than was meant
  kNote,
};
// "error", "warning", "note".
const char* NameOf(Severity severity);

// A picture by its source's place and its own.
struct PictureRef {
  size_t source = 0;
  int64_t index = 0;

  auto operator<=>(const PictureRef&) const = default;
};

struct FindingExample {
  std::string text;
  std::vector<PictureRef> pictures = {};
};

// All of a kind.
struct Finding {
  std::string kind;  // a word of its own, for programs: "damaged"
  Severity severity = Severity::kWarning;
  std::string title;  // "3 pictures are cut off or damaged"
  std::string help;   // what to do
  std::vector<FindingExample> examples = {};
};

}  // namespace moka

// Counts by kind and keeps the first names; the sentences are made at the end, one a kind.
#include "data/files/left_out.h"

#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kNamesShown = 3;

}  // namespace

void LeftOut::Add(const std::string& what, std::string_view name) {
  Kind& kind = kinds_[what];
  ++kind.count;
  if (kind.first.size() < kNamesShown) kind.first.push_back(Printable(name));
}

std::vector<std::string> LeftOut::Sentences(std::string_view done) const {
  std::vector<std::string> sentences;
  for (const auto& [what, kind] : kinds_) {
    sentences.push_back(StrCat(done, ", ", what, ": ", kind.count, " (", Join(kind.first, ", "),
                               kind.count > std::ssize(kind.first) ? ", ...)" : ")"));
  }
  return sentences;
}

}  // namespace moka

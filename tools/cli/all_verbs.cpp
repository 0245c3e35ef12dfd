// The list of verbs, from the rows that the build found.
#include <algorithm>

#include "core/error.h"
#include "tools/cli/command_line.h"

namespace moka {

const std::vector<Verb>& AllVerbs() {
  static const std::vector<Verb> verbs = [] {
    std::vector<Verb> all;
    std::vector<Verb> subverbs;
    for (Verb& verb : VerbRows()) (verb.under.empty() ? all : subverbs).push_back(std::move(verb));
    for (Verb& subverb : subverbs) {
      const auto verb = std::ranges::find(all, subverb.under, &Verb::name);
      Require(verb != all.end(), "a subverb belongs to a verb");
      verb->subverbs.push_back(std::move(subverb));
      std::ranges::sort(verb->subverbs, {}, &Verb::name);
    }
    std::ranges::sort(all, {}, &Verb::name);
    return all;
  }();
  return verbs;
}

const Verb* FindVerb(const std::vector<Verb>& verbs, std::string_view name) {
  const auto it = std::ranges::find(verbs, name, &Verb::name);
  return it == verbs.end() ? nullptr : &*it;
}

}  // namespace moka

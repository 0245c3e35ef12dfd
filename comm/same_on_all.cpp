#include "comm/same_on_all.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace moka {

void RequireSame(Communicator& world, const std::string& lines, std::string_view what) {
  const std::vector<std::string> all = world.AllGather(lines);
  for (int rank = 1; rank < world.size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == all[0]) continue;
    const std::vector<std::string> first = Split(all[0], '\n');
    const std::vector<std::string> other = Split(all[static_cast<size_t>(rank)], '\n');
    const auto at = static_cast<size_t>(std::ranges::mismatch(first, other).in1 - first.begin());
    const auto line = [&](const std::vector<std::string>& texts) {
      return at < texts.size() && !texts[at].empty() ? texts[at] : std::string("no more");
    };
    throw Error(ErrorKind::kConfig, SourcePlace{},
                StrCat("the ranks do not train the same program: ", what, " ", at, " is \"", line(first), "\" on ",
                       world.NameOf(0), " and \"", line(other), "\" on ", world.NameOf(rank)),
                "start the same moka with the same solver, net and flags on every host");
  }
}

}  // namespace moka

// A schedule of a few ranks as a part of one of more ranks and chunks.
#pragma once

#include <functional>

#include "comm/schedule/schedule.h"

namespace moka {

// Appends the part's rounds: its peer p is rank_of(p), its chunk c is the chunks [first + c * each, + each) of the
// whole.
inline void Embed(const Schedule& part, const std::function<int(int)>& rank_of, int64_t first, int64_t each,
                  Schedule& whole) {
  for (Round round : part.rounds) {
    for (std::vector<Transfer>* transfers : {&round.sends, &round.receives}) {
      for (Transfer& t : *transfers) t = {rank_of(t.peer), first + t.first * each, t.count * each, t.adds};
    }
    whole.rounds.push_back(std::move(round));
  }
}

}  // namespace moka

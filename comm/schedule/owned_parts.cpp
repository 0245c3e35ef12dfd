// Each of these is one round in which every rank talks to all its peers at once, beginning with the next rank, so that
// nobody is flooded first. Sums to owners and gathers from them move (P - 1) / P of the message each, as the halves of
// a ring do, with the latency of one round.
#include "comm/schedule/owned_parts.h"

namespace moka {
namespace {

Schedule OneRound(int rank, std::vector<int64_t> bounds, bool to_owners) {
  const int ranks = static_cast<int>(bounds.size()) - 1;
  Schedule schedule{.rank = rank, .size = ranks, .chunks = ranks, .rounds = {}, .bounds = std::move(bounds)};
  if (ranks == 1) return schedule;
  Round round;
  for (int step = 1; step < ranks; ++step) {  // each rank begins with another peer
    const int peer = (rank + step) % ranks;
    round.sends.push_back({.peer = peer, .first = to_owners ? peer : rank});
    round.receives.push_back({.peer = peer, .first = to_owners ? rank : peer, .adds = to_owners});
  }
  schedule.rounds = {round};
  return schedule;
}

}  // namespace

Schedule ReduceToOwners(int rank, std::vector<int64_t> bounds) { return OneRound(rank, std::move(bounds), true); }

Schedule SumInGroup(int rank, int ranks, int group) {
  Schedule schedule{.rank = rank, .size = ranks, .chunks = 1};
  if (group == 1) return schedule;
  Round round;
  const int first = rank / group * group;
  for (int step = 1; step < group; ++step) {
    const int peer = first + (rank - first + step) % group;
    round.sends.push_back({.peer = peer});
    round.receives.push_back({.peer = peer, .adds = true});
  }
  schedule.rounds = {round};
  return schedule;
}

Schedule ExchangeParts(int rank, int ranks, const std::vector<int64_t>& sent, const std::vector<int64_t>& received) {
  std::vector<int64_t> bounds = sent;
  for (size_t i = 1; i < received.size(); ++i) bounds.push_back(sent.back() + received[i]);
  const auto sent_parts = static_cast<int64_t>(sent.size()) - 1;
  const bool is_to_all = sent_parts == 1;
  const bool adds = received.size() == 2;
  Schedule schedule{.rank = rank,
                    .size = ranks,
                    .chunks = static_cast<int64_t>(bounds.size()) - 1,
                    .rounds = {},
                    .bounds = std::move(bounds)};
  Round round;
  for (int step = 1; step < ranks; ++step) {  // each rank begins with another peer
    const int peer = (rank + step) % ranks;
    round.sends.push_back({.peer = peer, .first = is_to_all ? 0 : peer});
    round.receives.push_back({.peer = peer, .first = sent_parts + (adds ? 0 : peer), .adds = adds});
  }
  if (ranks > 1) schedule.rounds = {round};
  return schedule;
}

Schedule GatherFromOwners(int rank, std::vector<int64_t> bounds) { return OneRound(rank, std::move(bounds), false); }

}  // namespace moka

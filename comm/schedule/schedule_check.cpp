// An abstract interpretation of the schedules: a chunk's value is the set of ranks in it, as bits, and a hash of its
// tree of additions. A run of it finds deadlocks, values added twice or left out and, by the hashes, sums whose
// rounding would differ between ranks.
#include "comm/schedule/schedule_check.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "core/rng.h"
#include "core/text.h"

namespace moka {
namespace {

// A chunk as a rank holds it: whose values are in it, and by which additions it came about. Additions of the same two
// terms are one, whichever comes first.
struct Held {
  std::vector<uint64_t> ranks;
  uint64_t order = 0;
};

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto words = Philox({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32U), static_cast<uint32_t>(b),
                             static_cast<uint32_t>(b >> 32U)},
                            {0x53434845, 0x434B});
  return uint64_t{words[0]} << 32U | words[1];
}

uint64_t OrderOfSum(uint64_t a, uint64_t b) { return Mix(std::min(a, b), std::max(a, b)); }

// False if some rank's values would be counted twice.
bool AddTo(Held& sum, const Held& term) {
  for (size_t i = 0; i < sum.ranks.size(); ++i) {
    if ((sum.ranks[i] & term.ranks[i]) != 0) return false;
    sum.ranks[i] |= term.ranks[i];
  }
  sum.order = OrderOfSum(sum.order, term.order);
  return true;
}

struct Message {
  Transfer transfer;  // as sent
  std::vector<Held> chunks;
};

class Checker {
 public:
  explicit Checker(std::span<const Schedule> schedules) : schedules_(schedules), ranks_(schedules.size()) {}

  std::string Run(bool has_fixed_order) {
    if (std::string why = CheckForm(); !why.empty()) return why;
    Start();
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t rank = 0; rank < ranks_; ++rank) {
        while (Advance(rank)) moves = true;
        if (!fault_.empty()) return fault_;
      }
    }
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const Place& place = places_[rank];
      if (place.round < schedules_[rank].rounds.size()) {
        return StrCat("rank ", rank, " waits for ever in round ", place.round + 1, " of ",
                      schedules_[rank].rounds.size());
      }
    }
    for (const auto& [pair, messages] : channels_) {
      if (!messages.empty()) return StrCat("rank ", pair.second, " never takes a message of rank ", pair.first);
    }
    return CheckResult(has_fixed_order);
  }

 private:
  struct Place {
    size_t round = 0;
    bool has_sent = false;
  };

  int64_t chunks() const { return schedules_[0].chunks; }
  Held& held(size_t rank, int64_t chunk) { return held_[rank][static_cast<size_t>(chunk)]; }

  std::string CheckForm() const {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const Schedule& schedule = schedules_[rank];
      if (schedule.rank != static_cast<int>(rank) || schedule.size != static_cast<int>(ranks_) || schedule.chunks < 1 ||
          schedule.chunks != chunks()) {
        return StrCat("schedule ", rank, " is of rank ", schedule.rank, " of ", schedule.size, " with ",
                      schedule.chunks, " chunks");
      }
      for (size_t r = 0; r < schedule.rounds.size(); ++r) {
        for (const std::vector<Transfer>* all : {&schedule.rounds[r].sends, &schedule.rounds[r].receives}) {
          for (const Transfer& t : *all) {
            const bool is_peer = t.peer >= 0 && t.peer < schedule.size && t.peer != schedule.rank;
            if (!is_peer || t.first < 0 || t.count < 1 || t.first + t.count > schedule.chunks) {
              return StrCat("rank ", rank, ", round ", r + 1, ": chunks [", t.first, ", ", t.first + t.count,
                            ") and peer ", t.peer, " are not all there");
            }
          }
        }
      }
    }
    return {};
  }

  void Start() {
    places_.assign(ranks_, {});
    held_.resize(ranks_);
    const size_t words = (ranks_ + 63) / 64;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      Held own{std::vector<uint64_t>(words, 0), Mix(rank, 1)};
      own.ranks[rank / 64] = uint64_t{1} << (rank % 64);
      held_[rank].assign(static_cast<size_t>(chunks()), own);
    }
  }

  // Sends what the rank's round sends, and ends the round once all it receives is there.
  bool Advance(size_t rank) {
    Place& place = places_[rank];
    const Schedule& schedule = schedules_[rank];
    if (place.round == schedule.rounds.size()) return false;
    const Round& round = schedule.rounds[place.round];
    if (!place.has_sent) {
      for (const Transfer& t : round.sends) {
        Message message{t, {}};
        for (int64_t c = t.first; c < t.first + t.count; ++c) message.chunks.push_back(held(rank, c));
        channels_[{static_cast<int>(rank), t.peer}].push_back(std::move(message));
      }
      place.has_sent = true;
    }
    std::map<int, size_t> wanted;
    for (const Transfer& t : round.receives) ++wanted[t.peer];
    for (const auto& [peer, count] : wanted) {
      if (channels_[{peer, static_cast<int>(rank)}].size() < count) return false;
    }
    Receive(rank, round, place.round);
    ++place.round;
    place.has_sent = false;
    return fault_.empty();
  }

  void Receive(size_t rank, const Round& round, size_t index) {
    // Messages of a peer are met in the order of the list; additions to the same chunks go by rank, this one's between.
    std::vector<std::pair<Transfer, Message>> come;
    for (const Transfer& t : round.receives) {
      std::deque<Message>& channel = channels_[{t.peer, static_cast<int>(rank)}];
      Message message = std::move(channel.front());
      channel.pop_front();
      if (message.transfer.first != t.first || message.transfer.count != t.count) {
        fault_ = StrCat("rank ", rank, ", round ", index + 1, ": it expects chunks [", t.first, ", ", t.first + t.count,
                        ") of rank ", t.peer, ", which sends [", message.transfer.first, ", ",
                        message.transfer.first + message.transfer.count, ")");
        return;
      }
      come.emplace_back(t, std::move(message));
    }
    std::ranges::stable_sort(
        come, {}, [](const auto& c) { return std::tuple(!c.first.adds, c.first.first, c.first.count, c.first.peer); });
    for (size_t begin = 0; begin < come.size();) {
      size_t end = begin + 1;
      const Transfer& t = come[begin].first;
      while (t.adds && end < come.size() && come[end].first.adds && come[end].first.first == t.first &&
             come[end].first.count == t.count) {
        ++end;
      }
      for (int64_t c = 0; c < t.count; ++c) Sum(rank, index, come, begin, end, c);
      if (!fault_.empty()) return;
      begin = end;
    }
  }

  void Sum(size_t rank, size_t index, const std::vector<std::pair<Transfer, Message>>& come, size_t begin, size_t end,
           int64_t chunk) {
    const Transfer& t = come[begin].first;
    Held& own = held(rank, t.first + chunk);
    std::vector<const Held*> terms;
    bool has_own = !t.adds;
    for (size_t i = begin; i < end; ++i) {
      if (!has_own && come[i].first.peer > static_cast<int>(rank)) {
        terms.push_back(&own);
        has_own = true;
      }
      terms.push_back(&come[i].second.chunks[static_cast<size_t>(chunk)]);
    }
    if (!has_own) terms.push_back(&own);
    Held sum = *terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      if (AddTo(sum, *terms[i])) continue;
      fault_ =
          StrCat("rank ", rank, ", round ", index + 1, ": values of a rank are added twice to chunk ", t.first + chunk);
      return;
    }
    own = std::move(sum);
  }

  std::string CheckResult(bool has_fixed_order) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      for (int64_t c = 0; c < chunks(); ++c) {
        size_t count = 0;
        for (const uint64_t word : held(rank, c).ranks) count += static_cast<size_t>(std::popcount(word));
        if (count != ranks_)
          return StrCat("chunk ", c, " of rank ", rank, " holds the values of ", count, " ranks only");
        if (held(rank, c).order != held(0, c).order) {
          return StrCat("chunk ", c, " of rank ", rank, " is added up in another order than rank 0's");
        }
        if (has_fixed_order && held(rank, c).order != held(0, 0).order) {
          return StrCat("chunk ", c, " is added up in another order than chunk 0");
        }
      }
    }
    return {};
  }

  std::span<const Schedule> schedules_;
  size_t ranks_;
  std::vector<Place> places_;
  std::vector<std::vector<Held>> held_;
  std::map<std::pair<int, int>, std::deque<Message>> channels_;
  std::string fault_;
};

}  // namespace

std::string CheckAllReduce(std::span<const Schedule> schedules, bool has_fixed_order) {
  return schedules.empty() ? "there is no rank" : Checker(schedules).Run(has_fixed_order);
}

}  // namespace moka

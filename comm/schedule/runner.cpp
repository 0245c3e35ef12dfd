// The engine of collectives. A round is done when all its sends and receives are; any of them moves as soon as its ring
// has room or bytes, so that a slow peer holds up only its own transfer. Values are summed in the order of ranks, in
// blocks that stay in the first cache, whatever the order in which they come: results do not depend on timing.
#include "comm/schedule/runner.h"

#include <algorithm>
#include <array>
#include <climits>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::chrono::milliseconds kLook(50);  // between looks whether it is cancelled
constexpr int64_t kBlock = 1024;                // elements summed at once over all ranks: they stay in the first cache
constexpr int64_t kPiece = int64_t{16} << 10U;  // elements after which senders are told of the room

void Add(const float* values, int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

}  // namespace

Runner::Runner(Transport& transport, Schedule schedule, Wire wire)
    : transport_(transport), schedule_(std::move(schedule)), wire_(wire) {
  Require(schedule_.rank == transport.rank() && schedule_.size == transport.size(),
          "a schedule runs on the rank it was made for");
}

void Runner::Run(const Message& message, std::chrono::nanoseconds patience, const std::atomic<bool>* is_cancelled) {
  const std::vector<Round>& rounds = schedule_.RoundsOf(message.size());
  for (size_t r = 0; r < rounds.size(); ++r) {
    Begin(rounds[r], message.size());
    Deadline deadline = std::chrono::steady_clock::now() + patience;
    bool is_stalled = false;
    while (!sends_.empty() || !receives_.empty()) {
      if (Move(message)) {
        deadline = std::chrono::steady_clock::now() + patience;
        if (is_stalled) on_stall_(static_cast<int>(r), false, {});
        is_stalled = false;
        continue;
      }
      const Deadline now = std::chrono::steady_clock::now();
      transport_.Idle(std::min(deadline, now + kLook), Awaited());
      if (is_cancelled != nullptr && *is_cancelled) throw Error(ErrorKind::kPeer, "the collective was cancelled");
      if (std::string why = transport_.failure(); !why.empty()) throw Error(ErrorKind::kPeer, std::move(why));
      if (on_stall_ && !is_stalled && now >= deadline - patience + kStall) {
        bool is_sending = false;
        const std::vector<int> peers = WaitedFor(is_sending);
        on_stall_(static_cast<int>(r), is_sending, peers);
        is_stalled = true;
      }
      if (std::chrono::steady_clock::now() >= deadline && !Move(message)) GiveUp(r, rounds.size(), patience);
    }
  }
  // A rank that has sent its sums holds what the wire made of them; so do the others then.
  message.ForEach(0, message.size(), [&](float* values, int64_t n) { RoundTo(wire_, values, n); });
}

void Runner::Begin(const Round& round, int64_t elements) {
  sends_.clear();
  receives_.clear();
  groups_.clear();
  const auto fill = [&](const std::vector<Transfer>& transfers, std::vector<Progress>& all) {
    for (const Transfer& t : transfers) {
      const int64_t begin = schedule_.Begin(elements, t.first);
      const int64_t end = schedule_.Begin(elements, t.first + t.count);
      const int64_t bytes = (end - begin) * BytesOf(wire_);
      const int64_t pad = RoundUp(bytes, Transport::kUnit).value() - bytes;
      if (begin < end) all.push_back({t.peer, t.adds, begin, begin, end, pad});
    }
  };
  fill(round.sends, sends_);
  fill(round.receives, receives_);
  std::ranges::sort(receives_, {}, [](const Progress& p) { return std::tuple(!p.adds, p.begin, p.peer); });
  for (size_t i = 0; i < receives_.size(); ++i) {
    const bool joins = i > 0 && receives_[i].adds && receives_[i - 1].adds &&
                       receives_[i].begin == receives_[i - 1].begin && receives_[i].end == receives_[i - 1].end;
    if (joins) {
      groups_.back().last = i + 1;
    } else {
      groups_.push_back({i, i + 1});
    }
  }
}

bool Runner::Move(const Message& message) {
  bool moved = false;
  for (Progress& send : sends_) moved |= Send(message, send);
  for (const Group& group : groups_) {
    moved |= group.last - group.first > 1 ? ReceiveGroup(message, group) : Receive(message, receives_[group.first]);
  }
  const auto is_done = [](const Progress& p) { return p.IsDone(); };
  if (std::ranges::all_of(sends_, is_done)) sends_.clear();
  if (std::ranges::all_of(receives_, is_done)) {
    receives_.clear();
    groups_.clear();
  }
  return moved;
}

bool Runner::Send(const Message& message, Progress& send) {
  if (send.IsDone()) return false;
  const int64_t size = BytesOf(wire_);
  bool moved = false;
  while (send.at < send.end) {
    const std::span<std::byte> room = transport_.Reserve(send.peer);
    const int64_t left = send.end - send.at;
    int64_t count = std::min<int64_t>(static_cast<int64_t>(room.size()) / size, left);
    if (count == 0) return moved;
    // The message's last elements go with their pad; the room is a multiple of the unit, so both fit or neither.
    const int64_t bytes = count * size + (count == left ? send.pad : 0);
    std::byte* to = room.data();
    message.ForEach(send.at, send.at + count, [&](float* values, int64_t n) {
      RoundTo(wire_, values, n);
      Encode(wire_, values, n, to);
      to += n * size;
    });
    transport_.Commit(send.peer, bytes);
    send.at += count;
    if (count == left) send.pad = 0;
    moved = true;
  }
  return moved;
}

int64_t Runner::Limit(int64_t at) const {
  int64_t limit = INT64_MAX;
  for (const Progress& send : sends_) {
    if (send.at < send.end && at < send.end) limit = std::min(limit, std::max(send.at, send.begin));
  }
  return limit;
}

bool Runner::Receive(const Message& message, Progress& receive) {
  if (receive.IsDone()) return false;
  const int64_t size = BytesOf(wire_);
  bool moved = false;
  while (receive.at < receive.end) {
    const std::span<const std::byte> come = transport_.Peek(receive.peer);
    const int64_t stop = std::min(receive.end, Limit(receive.at));
    const int64_t count = std::min(static_cast<int64_t>(come.size()) / size, stop - receive.at);
    if (count <= 0) return moved;
    const std::byte* from = come.data();
    message.ForEach(receive.at, receive.at + count, [&](float* values, int64_t n) {
      if (receive.adds) RoundTo(wire_, values, n);  // as SumBlock has it
      receive.adds ? DecodeAdd(wire_, from, n, values) : Decode(wire_, from, n, values);
      from += n * size;
    });
    receive.at += count;
    const bool is_last = receive.at == receive.end;
    transport_.Consume(receive.peer, count * size + (is_last ? receive.pad : 0));
    if (is_last) receive.pad = 0;
    moved = true;
  }
  return moved;
}

bool Runner::ReceiveGroup(const Message& message, const Group& group) {
  const int64_t size = BytesOf(wire_);
  const size_t members = group.last - group.first;
  Progress* const all = &receives_[group.first];
  bool moved = false;
  while (all[0].at < all[0].end) {
    const int64_t at = all[0].at;
    int64_t count = std::min({kPiece, all[0].end - at, Limit(at) - at});
    come_.clear();
    for (size_t m = 0; m < members && count > 0; ++m) {
      const std::span<const std::byte> come = transport_.Peek(all[m].peer);
      come_.push_back({all[m].peer, come.data()});
      count = std::min(count, static_cast<int64_t>(come.size()) / size);
    }
    if (count <= 0) return moved;
    for (int64_t begin = at; begin < at + count; begin += kBlock) {
      SumBlock(message, begin, std::min(kBlock, at + count - begin));
    }
    const bool is_last = at + count == all[0].end;
    for (size_t m = 0; m < members; ++m) {
      Progress& receive = all[m];
      receive.at += count;
      transport_.Consume(receive.peer, count * size + (is_last ? receive.pad : 0));
      if (is_last) receive.pad = 0;
    }
    moved = true;
  }
  return moved;
}

void Runner::SumBlock(const Message& message, int64_t begin, int64_t count) {
  std::array<float, kBlock> sums;
  bool is_first = true;
  bool has_own = false;
  const auto add_own = [&] {
    float* to = sums.data();
    message.ForEach(begin, begin + count, [&](float* values, int64_t n) {
      RoundTo(wire_, values, n);  // as the others have theirs, so that the sum is the same whoever adds it up
      is_first ? static_cast<void>(std::copy_n(values, n, to)) : Add(values, n, to);
      to += n;
    });
    is_first = false;
    has_own = true;
  };
  for (Come& come : come_) {
    if (!has_own && come.peer > transport_.rank()) add_own();
    is_first ? Decode(wire_, come.bytes, count, sums.data()) : DecodeAdd(wire_, come.bytes, count, sums.data());
    is_first = false;
    come.bytes += count * BytesOf(wire_);
  }
  if (!has_own) add_own();
  const float* from = sums.data();
  message.ForEach(begin, begin + count, [&](float* values, int64_t n) {
    std::copy_n(from, n, values);
    from += n;
  });
}

int Runner::Awaited() const {
  if (!std::ranges::all_of(sends_, [](const Progress& send) { return send.IsDone(); })) return 1;
  int least = INT_MAX;
  for (const Group& group : groups_) {
    if (receives_[group.first].IsDone()) continue;
    int missing = 0;
    for (size_t m = group.first; m < group.last; ++m) missing += transport_.Peek(receives_[m].peer).empty() ? 1 : 0;
    least = std::min(least, std::max(missing, 1));
  }
  return least == INT_MAX ? 1 : least;
}

std::vector<int> Runner::WaitedFor(bool& is_sending) const {
  std::set<int> waited;
  for (const Progress& receive : receives_) {  // what has come may have to wait for others to be added
    if (!receive.IsDone() && transport_.Peek(receive.peer).empty()) waited.insert(receive.peer);
  }
  is_sending = waited.empty();
  if (is_sending) {
    for (const Progress& send : sends_) {
      if (!send.IsDone()) waited.insert(send.peer);
    }
  }
  return {waited.begin(), waited.end()};
}

void Runner::GiveUp(size_t round, size_t rounds, std::chrono::nanoseconds patience) const {
  bool is_sending = false;
  const std::vector<int> waited = WaitedFor(is_sending);
  if (on_stall_) on_stall_(static_cast<int>(round), is_sending, waited);
  std::vector<std::string> names;
  for (const int peer : waited) names.push_back(StrCat(peer));
  throw Error(
      ErrorKind::kPeer,
      StrCat("rank ", transport_.rank(), " has waited ", std::chrono::duration<double>(patience).count(), " s for rank",
             names.size() == 1 ? " " : "s ", Join(names, ", "), " in round ", round + 1, " of ", rounds));
}

}  // namespace moka

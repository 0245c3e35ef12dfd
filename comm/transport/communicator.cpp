// Texts are spread along a binomial tree, gathers go to the first rank and back by it, and the barrier is by
// dissemination. There is one place where a rank waits: Await looks for failures, the ranks' patience and work that is
// known to be slow.
#include "comm/transport/communicator.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

// Longer than this a rank at work is not waited for.
constexpr std::chrono::minutes kSlowWork(20);
// No text is longer; what claims to be is no text.
constexpr uint64_t kLongestText = uint64_t{1} << 40;
// A received text takes this much memory at first and more as more has come, so that a wrong length costs none.
constexpr uint64_t kFirstPiece = uint64_t{1} << 24;

// How many ranks follow one another in each place, if equally many do in all; otherwise 1.
template <class Place>
int RanksPerPlace(const std::vector<Place>& places) {
  const auto differs = std::ranges::find_if(places, [&](const Place& place) { return place != places[0]; });
  const auto group = static_cast<size_t>(differs - places.begin());
  if (places.size() % group != 0) return 1;
  for (size_t r = 0; r < places.size(); ++r) {
    const bool begins = r % group == 0;
    if (!begins && places[r] != places[r - 1]) return 1;
    if (begins && r > 0 && places[r] == places[r - 1]) return 1;
  }
  return static_cast<int>(group);
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Transport> transport, std::vector<std::string> hosts,
                           std::chrono::nanoseconds patience, std::vector<int> numa_nodes)
    : transport_(std::move(transport)),
      hosts_(std::move(hosts)),
      numa_nodes_(std::move(numa_nodes)),
      patience_(patience) {
  if (hosts_.empty()) hosts_.assign(static_cast<size_t>(size()), "this host");
  if (numa_nodes_.empty()) numa_nodes_.assign(static_cast<size_t>(size()), -1);
  Require(numa_nodes_.size() == static_cast<size_t>(size()), "a NUMA node for each rank");
  Require(hosts_.size() == static_cast<size_t>(size()), "a host for each rank");
}

std::string Communicator::NameOf(int rank) const {
  return StrCat("rank ", rank, " on ", hosts_[static_cast<size_t>(rank)]);
}

int Communicator::group() const { return RanksPerPlace(hosts_); }

int Communicator::numa_group() const {
  if (std::ranges::find(numa_nodes_, -1) != numa_nodes_.end()) return group();
  std::vector<std::pair<std::string, int>> places;
  for (size_t r = 0; r < hosts_.size(); ++r) places.emplace_back(hosts_[r], numa_nodes_[r]);
  return RanksPerPlace(places);
}

void Communicator::Await(int peer, bool is_sending, const std::function<bool()>& move,
                         const std::function<bool()>& is_done) {
  Deadline begin = std::chrono::steady_clock::now();
  Deadline worked = begin;  // when a rank was last seen at work
  bool is_stalled = false;
  while (!is_done()) {
    if (move()) {
      begin = worked = std::chrono::steady_clock::now();
      continue;
    }
    const Deadline deadline = worked + patience_;
    transport_->Idle(std::min(deadline, is_stalled ? deadline : begin + kStall), 1);
    if (std::string why = transport_->failure(); !why.empty()) throw Error(ErrorKind::kPeer, std::move(why));
    const Deadline now = std::chrono::steady_clock::now();
    if (!is_stalled && now >= begin + kStall) {
      SetWaiting(round_, is_sending, {peer});
      is_stalled = true;
    }
    if (now < deadline || move()) continue;
    if (!watch_.is_working || !watch_.is_working() || now >= begin + kSlowWork) GiveUp(peer);
    worked = now - patience_ + patience_ / 4;
  }
  if (is_stalled) SetWaiting(round_, is_sending, {});
}

void Communicator::GiveUp(int peer) const {
  throw Error(ErrorKind::kPeer,
              StrCat(watch_.diagnose ? watch_.diagnose() : std::string(), NameOf(rank()), " has waited ",
                     std::chrono::duration<double>(patience_).count(), " s for ", NameOf(peer)));
}

WaitPlace Communicator::place() const {
  const std::lock_guard lock(place_mutex_);
  return place_;
}

void Communicator::BeginCollective() {
  const std::lock_guard lock(place_mutex_);
  ++place_.collective;
  place_.round = 0;
  place_.peers.clear();
}

void Communicator::SetWaiting(int round, bool is_sending, std::vector<int> peers) {
  const std::lock_guard lock(place_mutex_);
  place_.round = round;
  place_.is_sending = is_sending;
  place_.peers = std::move(peers);
}

void Communicator::Send(int peer, std::string_view text) {
  // A length of 8 bytes, the text, zeros to the next unit.
  std::string bytes(8 + RoundUp(static_cast<int64_t>(text.size()), Transport::kUnit).value(), '\0');
  const uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  std::ranges::copy(text, bytes.begin() + 8);
  size_t at = 0;
  Await(
      peer, true,
      [&] {
        const std::span<std::byte> room = transport_->Reserve(peer);
        const size_t count = std::min(room.size(), bytes.size() - at);
        if (count == 0) return false;
        std::memcpy(room.data(), bytes.data() + at, count);
        transport_->Commit(peer, static_cast<int64_t>(count));
        at += count;
        return true;
      },
      [&] { return at == bytes.size(); });
}

std::string Communicator::Receive(int peer) {
  uint64_t length = 0;
  const auto take = [&](char* to, size_t wanted) {
    size_t at = 0;
    Await(
        peer, false,
        [&] {
          const std::span<const std::byte> come = transport_->Peek(peer);
          const size_t count = std::min(come.size(), wanted - at);
          if (count == 0) return false;
          std::memcpy(to + at, come.data(), count);
          transport_->Consume(peer, static_cast<int64_t>(count));
          at += count;
          return true;
        },
        [&] { return at == wanted; });
  };
  take(reinterpret_cast<char*>(&length), sizeof length);
  if (length > kLongestText) RefuseMessage(*this, peer, StrCat("a text of ", length, " bytes"));
  const auto padded = static_cast<uint64_t>(RoundUp(static_cast<int64_t>(length), Transport::kUnit).value());
  std::string text;
  while (text.size() < padded) {
    const uint64_t have = text.size();
    text.resize(std::min(padded, std::max(kFirstPiece, 2 * have)));
    take(text.data() + have, text.size() - have);
  }
  text.resize(length);
  return text;
}

std::string Communicator::Broadcast(const std::string& text, int root) {
  BeginCollective();
  return Spread(text, root);
}

// A binomial tree: a rank at distance d from the root hears from the one that lacks d's highest bit.
std::string Communicator::Spread(const std::string& text, int root) {
  round_ = 1;
  const int distance = (rank() - root + size()) % size();
  int step = 1;
  std::string heard = text;
  while (step < size() && step <= distance) step *= 2;
  if (distance > 0) heard = Receive((distance - step / 2 + root) % size());
  for (; distance + step < size(); step *= 2) Send((distance + step + root) % size(), heard);
  return heard;
}

std::vector<std::string> Communicator::AllGather(const std::string& text) {
  std::vector<std::string> all(static_cast<size_t>(size()));
  std::string joined;
  BeginCollective();
  round_ = 0;
  if (is_first()) {
    all[0] = text;
    for (int peer = 1; peer < size(); ++peer) all[static_cast<size_t>(peer)] = Receive(peer);
    for (const std::string& one : all) {
      const uint64_t length = one.size();
      joined.append(reinterpret_cast<const char*>(&length), sizeof length).append(one);
    }
  } else {
    Send(0, text);
  }
  joined = Spread(joined, 0);
  std::string_view rest = joined;
  for (std::string& one : all) {
    uint64_t length = 0;
    if (rest.size() >= sizeof length) std::memcpy(&length, rest.data(), sizeof length);
    if (rest.size() < sizeof length || length > rest.size() - sizeof length) {
      RefuseMessage(*this, 0, "a text where one of each rank was due");
    }
    rest.remove_prefix(sizeof length);
    one = rest.substr(0, length);
    rest.remove_prefix(one.size());
  }
  return all;
}

// Dissemination (Hensgen, Finkel and Manber, 1988), eightfold: in round k a rank hears from those 1 to 7 times 8^k
// before it, so ranks of one host meet in one round, in which each is asleep once at most.
void Communicator::Barrier() {
  constexpr int kFan = 8;
  BeginCollective();
  round_ = 0;
  for (int step = 1; step < size(); step *= kFan, ++round_) {
    const auto for_each_distance = [&](auto body) {
      for (int distance = step; distance < std::min(size(), kFan * step); distance += step) body(distance);
    };
    for_each_distance([&](int distance) { Send((rank() + distance) % size(), {}); });
    for_each_distance([&](int distance) { (void)Receive((rank() - distance + size()) % size()); });
  }
}

template <class Join>
void Communicator::Combine(std::span<double> values, double first, Join join) {
  std::string bytes(values.size_bytes(), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  const std::vector<std::string> all = AllGather(bytes);
  std::ranges::fill(values, first);
  for (const std::string& one : all) {
    if (one.size() != bytes.size()) {
      throw Error(ErrorKind::kPeer,
                  StrCat("ranks combine ", values.size(), " and ", one.size() / sizeof(double), " numbers"));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      double value = 0;
      std::memcpy(&value, one.data() + i * sizeof value, sizeof value);
      values[i] = join(values[i], value);
    }
  }
}

void Communicator::Sum(std::span<double> values) {
  Combine(values, 0.0, [](double a, double b) { return a + b; });
}

void Communicator::Max(std::span<double> values) {
  Combine(values, -std::numeric_limits<double>::infinity(), [](double a, double b) { return std::max(a, b); });
}

void Communicator::Fail(const std::string& why) noexcept {
  if (size() > 1) transport_->Fail(StrCat(NameOf(rank()), ": ", why));
}

}  // namespace moka

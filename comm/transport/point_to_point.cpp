// Sends are queued views of the caller's memory, pushed on by every wait of this rank, so that two ranks that send to
// each other first never block one another.
#include "comm/transport/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace moka {

PointToPoint::PointToPoint(Communicator& world) : world_(world), sends_(static_cast<size_t>(world.size())) {}

void PointToPoint::Send(int peer, std::span<const std::byte> bytes) {
  Require(bytes.size() % Transport::kUnit == 0, "PointToPoint: whole units are sent");
  if (bytes.empty()) return;
  sends_[static_cast<size_t>(peer)].push_back({bytes, bytes});
  MoveSends();
}

bool PointToPoint::MoveSends() {
  bool has_moved = false;
  for (size_t peer = 0; peer < sends_.size(); ++peer) {
    std::deque<Outgoing>& queue = sends_[peer];
    while (!queue.empty()) {
      std::span<const std::byte>& left = queue.front().left;
      const std::span<std::byte> room = world_.transport().Reserve(static_cast<int>(peer));
      const size_t count = std::min(room.size(), left.size());
      if (count == 0) break;
      std::memcpy(room.data(), left.data(), count);
      world_.transport().Commit(static_cast<int>(peer), static_cast<int64_t>(count));
      left = left.subspan(count);
      has_moved = true;
      if (left.empty()) queue.pop_front();
    }
  }
  return has_moved;
}

void PointToPoint::Wait(int peer, bool is_sending, const std::function<bool()>& move,
                        const std::function<bool()>& is_done) {
  const auto move_all = [&] {
    const bool has_sent = MoveSends();
    return move() || has_sent;
  };
  world_.Await(peer, is_sending, move_all, is_done);
}

void PointToPoint::Receive(int peer, std::span<std::byte> bytes) {
  const auto move = [&] {
    const std::span<const std::byte> come = world_.transport().Peek(peer);
    const size_t count = std::min(come.size(), bytes.size());
    if (count == 0) return false;
    std::memcpy(bytes.data(), come.data(), count);
    world_.transport().Consume(peer, static_cast<int64_t>(count));
    bytes = bytes.subspan(count);
    return true;
  };
  Wait(peer, false, move, [&] { return bytes.empty(); });
}

void PointToPoint::Finish(std::span<const std::byte> bytes) {
  for (size_t peer = 0; peer < sends_.size(); ++peer) {
    const auto is_sent = [&] {
      return std::ranges::none_of(sends_[peer], [&](const Outgoing& o) { return o.all.data() == bytes.data(); });
    };
    Wait(
        static_cast<int>(peer), true, [] { return false; }, is_sent);
  }
}

void PointToPoint::Finish() {
  for (size_t peer = 0; peer < sends_.size(); ++peer) {
    Wait(
        static_cast<int>(peer), true, [] { return false; }, [&] { return sends_[peer].empty(); });
  }
}

}  // namespace moka

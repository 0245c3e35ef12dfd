// Puts a head before each commit that says how long it is and when it may be seen; the reader holds it back until then.
// So the delays are those of a network and the bytes take the real path.
#include "comm/transport/shaped_transport.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/rng.h"
#include "core/trace.h"

namespace moka {
namespace {

// A head is one unit: the length in its lower 24 bits, the time in microseconds above, which is enough for half a year.
constexpr int kLengthBits = 24;
constexpr int64_t kLargestFrame = int64_t{1} << 16;

uint64_t HeadOf(int64_t due_us, int64_t bytes) {
  return static_cast<uint64_t>(due_us) << kLengthBits | static_cast<uint64_t>(bytes);
}

}  // namespace

ShapedTransport::ShapedTransport(std::unique_ptr<Transport> inner, LinkShape shape)
    : Transport(inner->rank(), inner->size()),
      inner_(std::move(inner)),
      shape_(std::move(shape)),
      coming_(static_cast<size_t>(size())),
      sent_frames_(static_cast<size_t>(size())) {
  Require(shape_.host_of.empty() || shape_.host_of.size() == static_cast<size_t>(size()), "a host for each rank");
}

bool ShapedTransport::IsFar(int peer) const {
  if (shape_.host_of.empty()) return peer != rank();
  return shape_.host_of[static_cast<size_t>(peer)] != shape_.host_of[static_cast<size_t>(rank())];
}

bool ShapedTransport::IsSilent() {
  is_silent_ = is_silent_ || (shape_.silent_after_bytes && sent_bytes_ >= *shape_.silent_after_bytes) ||
               (shape_.falls_silent && shape_.falls_silent());
  return is_silent_;
}

std::span<std::byte> ShapedTransport::Reserve(int peer) {
  if (IsSilent()) return {};
  std::span<std::byte> room = inner_->Reserve(peer);
  if (room.size() == kUnit) {  // before the end of a ring: a head without bytes fills it
    const uint64_t head = HeadOf(0, 0);
    std::memcpy(room.data(), &head, sizeof head);
    inner_->Commit(peer, kUnit);
    room = inner_->Reserve(peer);
  }
  if (room.size() <= kUnit) return {};
  return room.subspan(kUnit, std::min<size_t>(room.size() - kUnit, kLargestFrame));
}

int64_t ShapedTransport::DueOf(int peer, int64_t bytes) {
  if (!IsFar(peer)) return 0;
  const auto now = static_cast<double>(NowMicros());
  link_free_us_ = std::max(link_free_us_, now);
  if (shape_.bytes_per_s > 0) link_free_us_ += static_cast<double>(bytes) / shape_.bytes_per_s * 1e6;
  const uint64_t frame = sent_frames_[static_cast<size_t>(peer)]++;
  const auto words = Philox({static_cast<uint32_t>(frame), static_cast<uint32_t>(frame >> 32U),
                             static_cast<uint32_t>(rank()), static_cast<uint32_t>(peer)},
                            {static_cast<uint32_t>(shape_.seed), static_cast<uint32_t>(shape_.seed >> 32U)});
  const double part = static_cast<double>(words[0]) / 4294967296.0;
  const double late_us = std::chrono::duration<double, std::micro>(shape_.latency).count() +
                         part * std::chrono::duration<double, std::micro>(shape_.jitter).count();
  return static_cast<int64_t>(link_free_us_ + late_us);
}

void ShapedTransport::Commit(int peer, int64_t bytes) {
  const uint64_t head = HeadOf(DueOf(peer, bytes), bytes);
  std::memcpy(inner_->Reserve(peer).data(), &head, sizeof head);
  inner_->Commit(peer, kUnit + bytes);
  sent_bytes_ += bytes;
}

std::span<const std::byte> ShapedTransport::Peek(int peer) {
  Frame& frame = coming_[static_cast<size_t>(peer)];
  std::span<const std::byte> come = inner_->Peek(peer);
  while (frame.left == 0) {
    if (come.empty()) return {};
    uint64_t head = 0;
    std::memcpy(&head, come.data(), sizeof head);
    frame = {static_cast<int64_t>(head & ((uint64_t{1} << kLengthBits) - 1)),
             static_cast<int64_t>(head >> kLengthBits)};
    inner_->Consume(peer, kUnit);
    come = inner_->Peek(peer);
  }
  if (NowMicros() < frame.due_us) return {};
  return come.first(std::min(come.size(), static_cast<size_t>(frame.left)));
}

void ShapedTransport::Consume(int peer, int64_t bytes) {
  inner_->Consume(peer, bytes);
  coming_[static_cast<size_t>(peer)].left -= bytes;
}

void ShapedTransport::Idle(Deadline until, int /*peers*/) {
  // A message that has come but may not be seen yet rings no bell when its time comes: wake by the clock.
  int64_t next_us = INT64_MAX;
  for (const Frame& frame : coming_) {
    if (frame.left > 0 && frame.due_us > 0) next_us = std::min(next_us, frame.due_us);
  }
  if (next_us != INT64_MAX) {
    const std::chrono::microseconds left(std::max<int64_t>(next_us - NowMicros(), 0));
    until = std::min(until, std::chrono::steady_clock::now() + left);
  }
  inner_->Idle(until, 1);  // a peer whose bytes have come, but not their time, rings no more
}

}  // namespace moka

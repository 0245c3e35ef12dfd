// Bytes between ranks: for each ordered pair a stream, in order and complete, written and read in place in pieces as
// large as the transport has room for. Nothing here blocks but Idle, so one thread serves all peers and every wait has
// a deadline. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moka {

using Deadline = std::chrono::steady_clock::time_point;

// A wait as long as this is told to who looks for lost ranks: long beside a collective, short beside any deadline.
inline constexpr std::chrono::milliseconds kStall(250);

class Transport {
 public:
  static constexpr int64_t kUnit = 8;  // bytes; messages are padded to it

  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Room for bytes to a peer; empty while it has to catch up, a multiple of kUnit otherwise.
  virtual std::span<std::byte> Reserve(int peer) = 0;
  // The first `bytes` of the room are on their way. Requires: at most what Reserve gave, a multiple of kUnit.
  virtual void Commit(int peer, int64_t bytes) = 0;
  // Returns the bytes that have come from a peer and are not consumed, in one piece; may be the beginning of it. A
  // multiple of kUnit.
  virtual std::span<const std::byte> Peek(int peer) = 0;
  virtual void Consume(int peer, int64_t bytes) = 0;
  // Returns when room or bytes may have come for `peers` peers, a rank has given up, or at the deadline at the latest;
  // may return early. Requires: so many have given neither since the last Idle, so that each still will.
  virtual void Idle(Deadline until, int peers) = 0;

  // Tells all ranks that this one gives up and why; they see it in failure().
  virtual void Fail(const std::string& why) = 0;
  // Returns the words of a rank that gave up, this one too; empty while all is well.
  virtual std::string failure() const = 0;

 protected:
  Transport(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

}  // namespace moka

// A transport made slower, or broken, on purpose: latency, bandwidth and jitter between hosts that are not there, and
// ranks that fall silent. What is late follows from the seed and the order of messages alone. Sender and receiver share
// a clock, so all ranks are on one machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/transport/transport.h"

namespace moka {

struct LinkShape {
  std::chrono::nanoseconds latency{0};
  std::chrono::nanoseconds jitter{0};  // added to the latency: uniform between 0 and this
  double bytes_per_s = 0;              // of all that a rank sends to other hosts; 0: no limit
  std::vector<int> host_of = {};       // by rank; between ranks of one host nothing is shaped. Empty: a host each
  uint64_t seed = 0;
  std::optional<int64_t> silent_after_bytes = {};  // after sending so many this rank sends nothing more
  std::function<bool()> falls_silent = {};         // asked before each message; once true it sends nothing more
};

class ShapedTransport : public Transport {
 public:
  ShapedTransport(std::unique_ptr<Transport> inner, LinkShape shape);

  std::span<std::byte> Reserve(int peer) override;
  void Commit(int peer, int64_t bytes) override;
  std::span<const std::byte> Peek(int peer) override;
  void Consume(int peer, int64_t bytes) override;
  void Idle(Deadline until, int peers) override;
  void Fail(const std::string& why) override { inner_->Fail(why); }
  std::string failure() const override { return inner_->failure(); }

 private:
  // Bytes travel in frames: a head with the time from which they may be seen, and the bytes.
  struct Frame {
    int64_t left = 0;  // bytes that the receiver has not consumed
    int64_t due_us = 0;
  };
  bool IsFar(int peer) const;
  bool IsSilent();
  int64_t DueOf(int peer, int64_t bytes);

  std::unique_ptr<Transport> inner_;
  LinkShape shape_;
  std::vector<Frame> coming_;  // by peer
  std::vector<uint64_t> sent_frames_;
  double link_free_us_ = 0;
  int64_t sent_bytes_ = 0;
  bool is_silent_ = false;
};

}  // namespace moka

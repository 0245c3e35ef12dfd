// The transport between ranks of one host: rings of bytes in a region that all of them see.
#pragma once

#include <memory>
#include <vector>

#include "comm/transport/region.h"
#include "comm/transport/transport.h"

namespace moka {

class RegionTransport : public Transport {
 public:
  // Requires: 0 <= rank < region->ranks(), no other transport of that rank.
  RegionTransport(std::shared_ptr<Region> region, int rank);

  std::span<std::byte> Reserve(int peer) override;
  void Commit(int peer, int64_t bytes) override;
  std::span<const std::byte> Peek(int peer) override;
  void Consume(int peer, int64_t bytes) override;
  void Idle(Deadline until, int peers) override;
  void Fail(const std::string& why) override;
  std::string failure() const override;

 private:
  enum class Wakes : uint8_t { kIfAwaited, kAlways };
  void Ring(int peer, Wakes wakes = Wakes::kIfAwaited);

  std::shared_ptr<Region> region_;
  // Own counters, so that a peer's cache line is read only to see what it has done.
  struct Ends {
    uint64_t written = 0;
    uint64_t read = 0;
  };
  std::vector<Ends> ends_;  // by peer
  uint32_t seen_ = 0;       // rings of the own bell before the last look at all peers
  bool gives_way_ = false;  // ranks are more than the CPUs they may use
};

// A transport for each of `ranks` ranks of this process.
std::vector<std::unique_ptr<Transport>> MakeThreadWorld(int ranks);

}  // namespace moka

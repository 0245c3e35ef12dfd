// The transport between hosts, over MPI's point-to-point messages: each commit is a message, a few of them under way
// for each pair. Included by mpi_world.cpp alone.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport/mpi_library.h"
#include "comm/transport/transport.h"

namespace moka {

class MpiTransport : public Transport {
 public:
  // Requires: MPI is initialised, the communicator lives longer.
  explicit MpiTransport(MPI_Comm world);
  // Takes back what it had asked MPI to receive.
  ~MpiTransport() override;

  std::span<std::byte> Reserve(int peer) override;
  void Commit(int peer, int64_t bytes) override;
  std::span<const std::byte> Peek(int peer) override;
  void Consume(int peer, int64_t bytes) override;
  void Idle(Deadline until, int peers) override;
  void Fail(const std::string& why) override;
  std::string failure() const override;

 private:
  // Messages a little below the 64 KiB from which Open MPI's TCP first asks whether it may send: the answer waits
  // behind whatever goes the same way, and over links of 1 Gb/s that took a third of a ring's time.
  static constexpr int kSlots = 8;
  static constexpr int64_t kSlotBytes = int64_t{60} << 10U;
  struct Slot {
    std::vector<std::byte> bytes;
    MPI_Request request = Mpi().request_null;
    int64_t filled = 0;  // received
    int64_t read = 0;
  };
  struct Peer {
    std::array<Slot, kSlots> sends;
    std::array<Slot, kSlots> receives;
    int next_send = 0;
    int next_receive = 0;
  };

  Peer& PeerOf(int peer);
  void Post(int peer, Slot& slot);

  MPI_Comm world_;
  std::vector<std::unique_ptr<Peer>> peers_;  // made when first used: a schedule uses few
  int idle_ = 0;                              // waits in a row
  mutable std::string failure_;
  std::string own_failure_;
};

}  // namespace moka

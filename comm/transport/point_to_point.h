// Values from one rank to another over a transport. Sends never wait: they are carried on whenever this rank waits for
// something, so two ranks that send to each other at once cannot hold each other up. What a pair of ranks sends and
// receives must be in one order. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "comm/transport/communicator.h"

namespace moka {

class PointToPoint {
 public:
  // The communicator must outlive it, and send nothing while sends are under way.
  explicit PointToPoint(Communicator& world);

  // Begins to send. Requires: the bytes, a multiple of Transport::kUnit, stay as they are until Finish.
  void Send(int peer, std::span<const std::byte> bytes);
  // Returns with all bytes. Errors: kPeer when a rank gave up (its words) or nothing moved for the communicator's
  // patience, naming the peer.
  void Receive(int peer, std::span<std::byte> bytes);
  // Waits until nothing of these bytes is left to send; of all sends without an argument. Errors: as Receive.
  void Finish(std::span<const std::byte> bytes);
  void Finish();

 private:
  struct Outgoing {
    std::span<const std::byte> all;
    std::span<const std::byte> left;
  };

  bool MoveSends();
  void Wait(int peer, bool is_sending, const std::function<bool()>& move, const std::function<bool()>& is_done);

  Communicator& world_;
  std::vector<std::deque<Outgoing>> sends_;  // by peer
};

}  // namespace moka

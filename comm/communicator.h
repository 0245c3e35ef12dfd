// The ranks of a training, and what they tell each other beside gradients: text from one to all, from all to all, sums
// of a few numbers. These are collectives: all ranks call them in one order. One thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport.h"

namespace moka {

class Communicator {
 public:
  // hosts[r]: the name of rank r's host; empty: all on one.
  explicit Communicator(std::unique_ptr<Transport> transport, std::vector<std::string> hosts = {},
                        std::chrono::nanoseconds patience = std::chrono::seconds(60));

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool is_first() const { return rank() == 0; }
  // "rank 3 on node7".
  std::string NameOf(int rank) const;
  // Ranks of each host if all have equally many and follow one another; otherwise 1.
  int group() const;
  const std::vector<std::string>& hosts() const { return hosts_; }
  Transport& transport() { return *transport_; }
  // Ends this communicator.
  std::unique_ptr<Transport> TakeTransport() { return std::move(transport_); }
  std::chrono::nanoseconds patience() const { return patience_; }
  void SetPatience(std::chrono::nanoseconds patience) { patience_ = patience; }

  // All of these. Errors: kPeer as Runner::Run.
  // Returns `root`'s text on every rank.
  std::string Broadcast(const std::string& text, int root = 0);
  // Every rank's text, by rank.
  std::vector<std::string> AllGather(const std::string& text);
  void Barrier() { (void)AllGather({}); }
  // Element-wise sums in the order of ranks, so all have the same bits.
  void Sum(std::span<double> values);
  // Element-wise maxima.
  void Max(std::span<double> values);
  // A text from one rank to another, which receives it; texts between two ranks keep their order.
  void Send(int peer, std::string_view text);
  std::string Receive(int peer);
  // Tells the others why this rank stops; what they wait for ends with that text.
  void Fail(const std::string& why) noexcept;

 private:
  template <class Move, class IsDone>
  void Wait(int peer, Move move, IsDone is_done);
  // values[i] becomes what `join` makes of it and every rank's, in the order of ranks, from `first` on.
  template <class Join>
  void Combine(std::span<double> values, double first, Join join);

  std::unique_ptr<Transport> transport_;
  std::vector<std::string> hosts_;
  std::chrono::nanoseconds patience_;
};

}  // namespace moka

// The ranks of a training, and what they tell each other beside gradients: text from one to all, from all to all, sums
// of a few numbers. But for Send, Receive and Await these are collectives: all ranks call them in one order. One thread
// at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/transport.h"

namespace moka {

// How far a rank is in what all do together. Of ranks that wait, the one with the lowest place (collective, round,
// first those that receive) waits for the rank that holds up all.
struct WaitPlace {
  int64_t collective = 0;  // begun so far: of texts, numbers and gradients
  int round = 0;           // of that collective
  bool is_sending = false;
  std::vector<int> peers = {};  // waited for; empty: it does not wait, or not for long
};

// How ranks are told apart that are late, at work or gone; asked by the thread that waits.
struct RankWatch {
  std::function<bool()> is_working = {};       // whether a rank says that it is at slow work, which is waited for
  std::function<std::string()> diagnose = {};  // begins the error of a rank that gives up waiting
};

class Communicator {
 public:
  // hosts[r]: the name of rank r's host; empty: all on one. numa_nodes[r]: the node of that host whose CPUs are all
  // that the rank may use, -1 for none; empty: none.
  explicit Communicator(std::unique_ptr<Transport> transport, std::vector<std::string> hosts = {},
                        std::chrono::nanoseconds patience = std::chrono::seconds(60), std::vector<int> numa_nodes = {});

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool is_first() const { return rank() == 0; }
  // "rank 3 on node7".
  std::string NameOf(int rank) const;
  // Ranks of each host if all have equally many and follow one another; otherwise 1.
  int group() const;
  // The same of each NUMA node; group() if ranks are not bound to nodes.
  int numa_group() const;
  const std::vector<std::string>& hosts() const { return hosts_; }
  Transport& transport() { return *transport_; }
  // Ends this communicator.
  std::unique_ptr<Transport> TakeTransport() { return std::move(transport_); }
  std::chrono::nanoseconds patience() const { return patience_; }
  void SetPatience(std::chrono::nanoseconds patience) { patience_ = patience; }
  void SetWatch(RankWatch watch) { watch_ = std::move(watch); }
  const RankWatch& watch() const { return watch_; }

  // Any thread. Begins the next collective, and says whom this rank waits for in which round of it.
  WaitPlace place() const;
  void BeginCollective();
  void SetWaiting(int round, bool is_sending, std::vector<int> peers);

  // Errors of all that follow but Fail: kPeer, as Runner::Run.
  // Returns `root`'s text on every rank.
  std::string Broadcast(const std::string& text, int root = 0);
  // Every rank's text, by rank.
  std::vector<std::string> AllGather(const std::string& text);
  // Returns when all ranks have called it.
  void Barrier();
  // Element-wise sums in the order of ranks, so all have the same bits.
  void Sum(std::span<double> values);
  // Element-wise maxima.
  void Max(std::span<double> values);
  // A text from one rank to another, which receives it; texts between two ranks keep their order.
  void Send(int peer, std::string_view text);
  std::string Receive(int peer);
  // The wait for one rank that all of these are made of: `move` does what it can and says whether that was anything.
  // While nothing moves, place() names the peer; after the patience it is given up, unless a rank says that it is at
  // slow work. Not a collective. Errors: kPeer, which `diagnose` of the watch begins.
  void Await(int peer, bool is_sending, const std::function<bool()>& move, const std::function<bool()>& is_done);
  // Tells the others why this rank stops; what they wait for ends with that text.
  void Fail(const std::string& why) noexcept;

 private:
  [[noreturn]] void GiveUp(int peer) const;
  std::string Spread(const std::string& text, int root);
  // values[i] becomes what `join` makes of it and every rank's, in the order of ranks, from `first` on.
  template <class Join>
  void Combine(std::span<double> values, double first, Join join);

  std::unique_ptr<Transport> transport_;
  std::vector<std::string> hosts_;
  std::vector<int> numa_nodes_;
  std::chrono::nanoseconds patience_;
  RankWatch watch_;
  int round_ = 0;  // of the collective: all to the first rank, one to all; or of the barrier
  mutable std::mutex place_mutex_;
  WaitPlace place_;
};

}  // namespace moka

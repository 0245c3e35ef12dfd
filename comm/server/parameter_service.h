// The parameter server (Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014) with a
// server in every rank: each rank serves the values it owns, and as a worker pushes gradients to all owners and waits
// for their new values. A thread of each rank does both roles over the ranks' transport while the rank computes. A
// worker's clock is the number of the iteration whose gradients it pushes. In what order a server takes gradients is
// its rule:
//
//   kTogether  the sum of all workers' is one update (synchronous)
//   kArrival   each is an update as it comes (asynchronous)
//   kBounded   the same, but a worker gets its answer only when no other is more than `staleness` clocks behind it
//              (Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", 2013)
//   kTurn      each is an update, worker after worker in their order (Langford et al., "Slow learners are fast", 2009:
//              a gradient is size - 1 updates old, and results do not depend on timing)
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport/communicator.h"

namespace moka {

// The values that a server owns; called by the service's thread only.
class ServedValues {
 public:
  virtual ~ServedValues() = default;
  // One update. `sent`: the values the worker had been sent before it computed these gradients; empty for a sum of all
  // workers'. `loss`: the worker's, or the workers' sum.
  virtual void Apply(int64_t clock, double loss, std::span<float> gradients, std::span<const float> sent) = 0;
  virtual void Read(std::span<float> values) const = 0;
};

class ParameterService {
 public:
  enum class Rule : uint8_t { kTogether, kArrival, kBounded, kTurn };
  static constexpr int kSignals = 4;
  using Signals = std::array<double, kSignals>;
  struct Answer {
    double loss = 0;       // mean of every worker's last
    Signals signals = {};  // sums over the workers; all of them learn of a signal after the same clock
  };

  // elements[r]: how many values rank r serves. The communicator must outlive it, and is the service's alone between
  // Enter and Leave. Requires: `values` outlives it.
  ParameterService(Communicator& communicator, std::vector<int64_t> elements, Rule rule, int64_t staleness,
                   ServedValues& values);
  ~ParameterService();

  // From now on this rank serves; its first push will be of `clock`. All ranks, each when it comes to it.
  void Enter(int64_t clock);
  bool is_entered() const;
  // Pushes the gradients of `clock` (one after the other, from Enter on) and waits for the new values. Both spans hold
  // the parts of all servers, one behind the other. Errors: kPeer as Runner::Run.
  Answer Exchange(int64_t clock, double loss, const Signals& signals, std::span<const float> gradients,
                  std::span<float> values);
  // Serves on until every rank has called it. Afterwards nothing is under way. Errors: kPeer.
  void Leave();
  // Ends what is under way and tells the other ranks why. Nothing follows.
  void Cancel(const std::string& why) noexcept;

 private:
  enum class Kind : int64_t { kPush, kAnswer, kLeave };
  struct Header {
    Kind kind = Kind::kPush;
    int64_t clock = 0;
    double loss = 0;
    Signals signals = {};
  };
  static_assert(sizeof(Header) % Transport::kUnit == 0);
  // A message on its way: the header, then floats, padded to the transport's unit.
  struct Parcel {
    Header header;
    std::span<const float> values;
    int64_t at = 0;  // bytes done
  };
  struct Peer {
    std::vector<Parcel> outgoing;  // first in, first out; at most one of each kind
    Header incoming;
    int64_t at = 0;  // bytes of the incoming parcel
    bool has_left = false;
    bool owes_answer = false;  // as a server of this worker
    // As a worker of this server.
    std::vector<float> gradients;
    std::vector<float> sent;
    bool is_waiting = false;         // has pushed, is not answered
    bool gradients_applied = false;  // and its gradients are in the values
    int64_t clock = 0;               // of its last push
    std::optional<double> loss;      // and its loss; none since Enter
  };

  void Work(const std::stop_token& stop);
  // False when there was nothing to do.
  bool Round();
  bool SendTo(int peer);
  bool ReceiveFrom(int peer);
  // Errors: kPeer for a header that no rank may send now.
  void CheckHeader(int peer) const;
  void Take(int peer);
  void Pushed(int worker, const Header& header);
  bool Serve();
  void Update(int worker);
  void AnswerTo(int worker);
  void Answered(int server, const Header& header);
  bool HaveAllLeft() const;
  // Waits on the training's thread. Errors: kPeer.
  void Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_done, const std::string& what);
  std::span<float> PartOf(std::span<float> all, int server) const;

  Communicator& communicator_;
  std::vector<int64_t> elements_;
  std::vector<int64_t> begin_;  // of each server's values among all
  Rule rule_;
  int64_t staleness_;
  ServedValues& values_;

  // These belong to the service's thread.
  std::vector<Peer> peers_;
  std::vector<float> sum_;
  int turn_ = 0;
  int64_t newest_ = -1;   // clock
  Signals pending_ = {};  // wait for clock signal_at_
  std::optional<int64_t> signal_at_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool is_entered_ = false;
  bool wants_push_ = false;
  bool wants_leave_ = false;
  Header push_;
  std::span<const float> gradients_;
  std::span<float> received_;
  int answers_ = 0;  // that are missing
  Answer answer_;
  std::chrono::steady_clock::time_point moved_at_;
  std::string cancelled_for_;
  std::string failure_;
  std::jthread thread_;  // last: it uses all else
};

}  // namespace moka

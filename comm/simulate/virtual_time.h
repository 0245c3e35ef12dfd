// An all-reduce in virtual time: the schedules that ranks would run (comm/schedule/schedule.h), round by round, on a
// simulated machine.
//
// A rank enters a round when its previous one has ended. What it sends in a round starts then and goes at one rate,
// that of the busiest of the resources it crosses: the sender's and the receiver's own link and, between nodes, the two
// nodes' network cards, each carrying all that its users send (receive) in the round of that number. A transfer of m
// bytes occupies the sender for m / rate and arrives alpha later; a rank starts, and takes, one transfer of a round at
// a time, alpha apart. The round ends when all has gone and come, and what was to be added has been. It simplifies: all
// who share a card in a round end together, where max-min fairness would not have them do so; rounds of one number that
// share a card are taken to meet there though ranks may be apart in time; chunks are equal parts of the message without
// their rounding to cache lines; sums are added after a round's last arrival.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/exchange/cost_curve.h"
#include "comm/simulate/topology.h"

namespace moka {

// Built once for an algorithm and a number of ranks, asked for many sizes. Where every node's ranks do the same as
// those of the first (a ring, a torus, halving and doubling among powers of two), the ranks of one node (or of as many
// as a group spans) stand for all: 16,384 ranks take as long as 8.
class VirtualSchedule {
 public:
  enum class Follow { kOneNodeIfAlike, kAllRanks };

  // Requires: the algorithm does not refuse. Errors: kConfig where nodes differ and the ranks have more than a few
  // million rounds in all; kInternal for schedules whose messages do not meet.
  static VirtualSchedule Of(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement,
                            const Topology& topology, Follow follow = Follow::kOneNodeIfAlike);

  // From the first rank's start to the last one's end, all starting together.
  double Seconds(int64_t elements, int64_t bytes_per_element) const;
  // Ranks that were followed: fewer than there are if one node stands for all.
  int followed_ranks() const { return followed_ranks_; }

 private:
  friend class VirtualScheduleBuilder;
  VirtualSchedule() = default;

  struct Message {
    double seconds_per_byte = 0;  // of the whole all-reduce's bytes
    bool is_network = false;
  };
  // The end of a rank's round (what it receives has been sent in an earlier step) and the beginning of its next.
  struct Step {
    int32_t rank = 0;
    int32_t first_send = 0;
    int32_t sends = 0;
    int32_t first_receive = 0;
    int32_t receives = 0;
    double added = 0;  // part of the whole message that is added to sums
  };

  Topology topology_;
  std::shared_ptr<const VirtualSchedule> short_form_;  // of messages of at most short_elements_
  int64_t short_elements_ = 0;
  int followed_ranks_ = 0;
  std::vector<Step> steps_;
  std::vector<Message> messages_;
  std::vector<int32_t> sends_;  // numbers of messages
  std::vector<int32_t> receives_;
};

// The cost curve of a virtual schedule at powers of two from 1 KiB to 1 GiB. Bytes are as they travel.
CostCurve CurveOf(const VirtualSchedule& schedule, int64_t bytes_per_element);

}  // namespace moka

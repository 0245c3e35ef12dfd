// Matches every send with its receive once, then evaluates rounds in dependency order with shared links as divided
// bandwidth. Where all nodes do alike, one node is followed for all, which is what makes thousands of ranks cheap.
#include "comm/simulate/virtual_time.h"

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kMostRounds = 2 << 20;  // of all ranks together: 300 MB of schedules

// A transfer as the machine sees it. Peers are named by the followed rank that stands for them.
struct SeenTransfer {
  int peer = 0;
  bool is_network = false;
  bool adds = false;
  int64_t chunks = 0;

  auto operator<=>(const SeenTransfer&) const = default;
};

struct SeenRound {
  std::vector<SeenTransfer> sends;
  std::vector<SeenTransfer> receives;

  bool operator==(const SeenRound&) const = default;
};

// Messages from one followed rank to another take one of two ways, each in order.
struct Way {
  int from = 0;
  int to = 0;
  bool is_network = false;

  auto operator<=>(const Way&) const = default;
};

struct Matched {
  std::vector<std::vector<std::vector<int32_t>>> sends;  // messages by followed rank and round
  std::vector<std::vector<std::vector<int32_t>>> receives;
  int32_t messages = 0;
};

}  // namespace

class VirtualScheduleBuilder {
 public:
  enum class Form : uint8_t { kLong, kShort };
  VirtualScheduleBuilder(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement, const Topology& topology,
                         Form form)
      : algorithm_(algorithm), arrangement_(arrangement), topology_(topology), form_(form) {}

  // One node's ranks for all if that is asked for and they do the same.
  VirtualSchedule Build(VirtualSchedule::Follow follow) {
    const int group = algorithm_.has_groups ? arrangement_.group : 1;
    const int unit = std::lcm(topology_.devices_per_node, group);
    if (follow == VirtualSchedule::Follow::kOneNodeIfAlike && unit < arrangement_.ranks &&
        arrangement_.ranks % unit == 0) {
      if (std::optional<VirtualSchedule> schedule = Follow(unit)) return *std::move(schedule);
    }
    std::optional<VirtualSchedule> schedule = Follow(arrangement_.ranks);
    Require(schedule.has_value(), "a schedule in which every message that is sent is received");
    return *std::move(schedule);
  }

 private:
  // Returns the schedule in which ranks [0, followed) stand for all; none if other nodes do something else.
  std::optional<VirtualSchedule> Follow(int followed) {
    followed_ = followed;
    if (followed < arrangement_.ranks && !IsAlike()) return std::nullopt;
    rounds_.clear();
    int64_t count = 0;
    for (int rank = 0; rank < followed; ++rank) {
      rounds_.push_back(See(rank));
      count += static_cast<int64_t>(rounds_.back().size());
      if (count > kMostRounds) {
        throw Error(ErrorKind::kConfig, {},
                    StrCat("\"", algorithm_.name, "\" among ", arrangement_.ranks, " ranks has more than ", kMostRounds,
                           " rounds in all, and no node's ranks can stand for the others'"),
                    "simulate fewer devices, or full nodes in powers of two");
      }
    }
    std::optional<Matched> matched = Match();
    if (!matched) return std::nullopt;
    VirtualSchedule schedule;
    schedule.topology_ = topology_;
    schedule.followed_ranks_ = followed;
    schedule.messages_ = Loads(*matched);
    if (!Order(*matched, schedule)) return std::nullopt;
    return schedule;
  }

  std::vector<SeenRound> See(int rank) const {
    const Schedule schedule = algorithm_.make(arrangement_, rank);
    chunks_ = schedule.chunks;
    const auto see = [&](const std::vector<Transfer>& transfers) {
      std::vector<SeenTransfer> seen;
      for (const Transfer& t : transfers) {
        const bool is_network = t.peer / topology_.devices_per_node != rank / topology_.devices_per_node;
        seen.push_back({t.peer % followed_, is_network, t.adds, t.count});
      }
      std::ranges::sort(seen);
      return seen;
    };
    std::vector<SeenRound> rounds;
    const std::vector<Round>& all = form_ == Form::kShort ? schedule.short_rounds : schedule.rounds;
    for (const Round& round : all) rounds.push_back({see(round.sends), see(round.receives)});
    return rounds;
  }

  // Looks at three other groups of nodes: the second, one in the middle and the last.
  bool IsAlike() const {
    const int groups = arrangement_.ranks / followed_;
    for (int rank = 0; rank < followed_; ++rank) {
      const std::vector<SeenRound> rounds = See(rank);
      for (const int group : {1, groups / 2, groups - 1}) {
        if (See(group * followed_ + rank) != rounds) return false;
      }
    }
    return true;
  }

  // The n-th message sent on a way is the n-th received there.
  std::optional<Matched> Match() const {
    struct Queue {
      std::vector<int64_t> sent;  // chunks
      std::vector<int32_t> messages;
      size_t received = 0;
    };
    std::map<Way, Queue> queues;
    Matched matched;
    matched.sends.resize(rounds_.size());
    matched.receives.resize(rounds_.size());
    for (int rank = 0; rank < followed_; ++rank) {
      for (const SeenRound& round : rounds_[static_cast<size_t>(rank)]) {
        std::vector<int32_t>& messages = matched.sends[static_cast<size_t>(rank)].emplace_back();
        for (const SeenTransfer& send : round.sends) {
          Queue& queue = queues[{rank, send.peer, send.is_network}];
          queue.sent.push_back(send.chunks);
          queue.messages.push_back(matched.messages);
          messages.push_back(matched.messages++);
        }
      }
    }
    for (int rank = 0; rank < followed_; ++rank) {
      for (const SeenRound& round : rounds_[static_cast<size_t>(rank)]) {
        std::vector<int32_t>& messages = matched.receives[static_cast<size_t>(rank)].emplace_back();
        for (const SeenTransfer& receive : round.receives) {
          Queue& queue = queues[{receive.peer, rank, receive.is_network}];
          if (queue.received == queue.sent.size() || queue.sent[queue.received] != receive.chunks) return std::nullopt;
          messages.push_back(queue.messages[queue.received++]);
        }
      }
    }
    for (const auto& [way, queue] : queues) {
      if (queue.received != queue.sent.size()) return std::nullopt;
    }
    return matched;
  }

  double Part(int64_t chunks) const { return static_cast<double>(chunks) / static_cast<double>(chunks_); }

  // Adds each user's part of the message to what its device's link and its node's card carry in that round; then every
  // message's rate is that of the busiest of its four resources.
  std::vector<VirtualSchedule::Message> Loads(const Matched& matched) const {
    std::vector<VirtualSchedule::Message> loaded(static_cast<size_t>(matched.messages));
    const auto nodes = static_cast<size_t>((followed_ - 1) / topology_.devices_per_node + 1);
    size_t most_rounds = 0;
    for (const std::vector<SeenRound>& rounds : rounds_) most_rounds = std::max(most_rounds, rounds.size());
    const auto add_side = [&](std::vector<SeenTransfer> SeenRound::*side,
                              const std::vector<std::vector<std::vector<int32_t>>>& messages) {
      std::vector<double> cards(nodes * most_rounds, 0);
      const auto card = [&](size_t rank, size_t r) -> double& {
        return cards[rank / static_cast<size_t>(topology_.devices_per_node) * most_rounds + r];
      };
      for (size_t rank = 0; rank < rounds_.size(); ++rank) {
        for (size_t r = 0; r < rounds_[rank].size(); ++r) {
          for (const SeenTransfer& t : rounds_[rank][r].*side) card(rank, r) += t.is_network ? Part(t.chunks) : 0;
        }
      }
      for (size_t rank = 0; rank < rounds_.size(); ++rank) {
        for (size_t r = 0; r < rounds_[rank].size(); ++r) {
          const std::vector<SeenTransfer>& transfers = rounds_[rank][r].*side;
          double own = 0;
          for (const SeenTransfer& t : transfers) own += Part(t.chunks);
          for (size_t i = 0; i < transfers.size(); ++i) {
            VirtualSchedule::Message& message = loaded[static_cast<size_t>(messages[rank][r][i])];
            message.is_network = transfers[i].is_network;
            double& slowest = message.seconds_per_byte;
            slowest = std::max(slowest, own / topology_.inside.bytes_per_s);
            if (message.is_network) slowest = std::max(slowest, card(rank, r) / topology_.network.bytes_per_s);
          }
        }
      }
    };
    add_side(&SeenRound::sends, matched.sends);
    add_side(&SeenRound::receives, matched.receives);
    return loaded;
  }

  // Each rank goes as far as what has been sent lets it, and again when what it waited for is sent. False if some wait
  // forever.
  bool Order(const Matched& matched, VirtualSchedule& schedule) const {
    std::vector<bool> is_sent(static_cast<size_t>(matched.messages), false);
    std::vector<int> waits(static_cast<size_t>(matched.messages), -1);
    std::vector<size_t> at(rounds_.size(), 0);
    std::vector<int> ready;
    const auto emit = [&](int rank, std::optional<size_t> done, size_t next) {
      VirtualSchedule::Step step;
      step.rank = rank;
      const auto who = static_cast<size_t>(rank);
      step.first_receive = static_cast<int32_t>(schedule.receives_.size());
      if (done) {
        for (const int32_t message : matched.receives[who][*done]) schedule.receives_.push_back(message);
        for (const SeenTransfer& t : rounds_[who][*done].receives) step.added += t.adds ? Part(t.chunks) : 0;
      }
      step.receives = static_cast<int32_t>(schedule.receives_.size()) - step.first_receive;
      step.first_send = static_cast<int32_t>(schedule.sends_.size());
      for (size_t i = 0; next < rounds_[who].size() && i < rounds_[who][next].sends.size(); ++i) {
        const int32_t message = matched.sends[who][next][i];
        schedule.sends_.push_back(message);
        is_sent[static_cast<size_t>(message)] = true;
        if (const int waiting = std::exchange(waits[static_cast<size_t>(message)], -1); waiting >= 0) {
          ready.push_back(waiting);
        }
      }
      step.sends = static_cast<int32_t>(schedule.sends_.size()) - step.first_send;
      schedule.steps_.push_back(step);
    };
    for (int rank = 0; rank < followed_; ++rank) emit(rank, std::nullopt, 0);
    for (int rank = 0; rank < followed_; ++rank) ready.push_back(rank);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      const auto who = static_cast<size_t>(rank);
      for (; at[who] < rounds_[who].size(); ++at[who]) {
        const std::vector<int32_t>& needs = matched.receives[who][at[who]];
        const auto missing = std::ranges::find_if(needs, [&](int32_t m) { return !is_sent[static_cast<size_t>(m)]; });
        if (missing != needs.end()) {
          waits[static_cast<size_t>(*missing)] = rank;
          break;
        }
        emit(rank, at[who], at[who] + 1);
      }
    }
    for (size_t who = 0; who < at.size(); ++who) {
      if (at[who] != rounds_[who].size()) return false;
    }
    return true;
  }

  const AllReduceAlgorithm& algorithm_;
  const Arrangement& arrangement_;
  const Topology& topology_;
  Form form_;
  int followed_ = 0;
  mutable int64_t chunks_ = 1;
  std::vector<std::vector<SeenRound>> rounds_;  // by followed rank
};

VirtualSchedule VirtualSchedule::Of(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement,
                                    const Topology& topology, Follow follow) {
  using Form = VirtualScheduleBuilder::Form;
  VirtualSchedule schedule = VirtualScheduleBuilder(algorithm, arrangement, topology, Form::kLong).Build(follow);
  schedule.short_elements_ = algorithm.make(arrangement, 0).short_elements;
  if (schedule.short_elements_ > 0) {
    schedule.short_form_ = std::make_shared<const VirtualSchedule>(
        VirtualScheduleBuilder(algorithm, arrangement, topology, Form::kShort).Build(follow));
  }
  return schedule;
}

double VirtualSchedule::Seconds(int64_t elements, int64_t bytes_per_element) const {
  if (short_form_ != nullptr && elements <= short_elements_) return short_form_->Seconds(elements, bytes_per_element);
  const double bytes = static_cast<double>(elements * bytes_per_element);
  std::vector<double> arrivals(messages_.size());
  std::vector<double> ends(static_cast<size_t>(followed_ranks_), 0);  // of a rank's round, as far as it has sent
  double last = 0;
  const auto alpha = [&](const Message& message) {
    return message.is_network ? topology_.network.alpha_s : topology_.inside.alpha_s;
  };
  for (const Step& step : steps_) {
    double& end = ends[static_cast<size_t>(step.rank)];
    double taken = 0;
    for (int32_t i = 0; i < step.receives; ++i) {
      const auto message = static_cast<size_t>(receives_[static_cast<size_t>(step.first_receive + i)]);
      taken = i == 0 ? arrivals[message] : std::max(arrivals[message], taken + alpha(messages_[message]));
    }
    const double begin = std::max(end, taken) + step.added * static_cast<double>(elements) * topology_.add_s;
    end = begin;
    double start = begin;
    for (int32_t i = 0; i < step.sends; ++i) {
      const auto message = static_cast<size_t>(sends_[static_cast<size_t>(step.first_send + i)]);
      const double occupied = messages_[message].seconds_per_byte * bytes;
      arrivals[message] = start + alpha(messages_[message]) + occupied;
      end = std::max(end, start + occupied);
      start += alpha(messages_[message]);
    }
    last = std::max(last, end);
  }
  return topology_.call_s + last;
}

CostCurve CurveOf(const VirtualSchedule& schedule, int64_t bytes_per_element) {
  std::vector<CostPoint> points;
  for (int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 2) {
    points.push_back({bytes, schedule.Seconds(bytes / bytes_per_element, bytes_per_element)});
  }
  return CostCurve(std::move(points));
}

}  // namespace moka

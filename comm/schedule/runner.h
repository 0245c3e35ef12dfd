// Runs a schedule over a transport: packs what is sent straight into the transport's memory and adds what comes
// straight out of it, all peers of a round at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/schedule/message.h"
#include "comm/schedule/schedule.h"
#include "comm/schedule/wire.h"
#include "comm/transport/transport.h"

namespace moka {

class Runner {
 public:
  // The transport must outlive it. Requires: the schedule is of the transport's rank and size.
  Runner(Transport& transport, Schedule schedule, Wire wire);

  // All ranks call it with messages of one size; afterwards all hold the same bits. Allocates nothing once it has run.
  // Errors: kPeer when a rank gave up (its words) or nothing moved until `patience` after the last byte did, naming the
  // ranks waited for and the round, or soon after `is_cancelled` has become true.
  void Run(const Message& message, std::chrono::nanoseconds patience, const std::atomic<bool>* is_cancelled = nullptr);

  const Schedule& schedule() const { return schedule_; }

  // Called when nothing has moved for kStall, with the round and the ranks waited for, and with none when something
  // moves again.
  using OnStall = std::function<void(int round, bool is_sending, std::vector<int> peers)>;
  void SetOnStall(OnStall on_stall) { on_stall_ = std::move(on_stall); }

 private:
  // One transfer under way: elements [at, end) are left, and `pad` bytes that go with the last of them.
  struct Progress {
    int peer = 0;
    bool adds = false;
    int64_t begin = 0;
    int64_t at = 0;
    int64_t end = 0;
    int64_t pad = 0;
    bool IsDone() const { return at == end && pad == 0; }
  };
  // Receives that add to the same elements, summed in the order of ranks: [first, last) of receives_.
  struct Group {
    size_t first = 0;
    size_t last = 0;
  };

  // Bytes that a member of the group has sent and that are not summed yet.
  struct Come {
    int peer = 0;
    const std::byte* bytes = nullptr;
  };

  void Begin(const Round& round, int64_t elements);
  bool Move(const Message& message);
  bool Send(const Message& message, Progress& send);
  bool Receive(const Message& message, Progress& receive);
  bool ReceiveGroup(const Message& message, const Group& group);
  // Elements [begin, begin + count) become their sum with what has come, which is taken.
  void SumBlock(const Message& message, int64_t begin, int64_t count);
  // The first element from `at` on that a send of this round still has to read.
  int64_t Limit(int64_t at) const;
  [[noreturn]] void GiveUp(size_t round, size_t rounds, std::chrono::nanoseconds patience) const;
  // Returns the number of peers of which bytes or room must come before anything can move.
  int Awaited() const;
  // Those whose bytes have not come; without any, those that take none.
  std::vector<int> WaitedFor(bool& is_sending) const;

  Transport& transport_;
  Schedule schedule_;
  Wire wire_;
  OnStall on_stall_;
  std::vector<Progress> sends_;
  std::vector<Progress> receives_;  // those of a group are neighbours
  std::vector<Group> groups_;
  std::vector<Come> come_;  // of the group that is summed
};

}  // namespace moka

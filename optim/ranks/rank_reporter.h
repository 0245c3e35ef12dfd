// A rank's reports: what it tells of itself while it trains, and whom it names when it has waited too long for the
// others. With one rank it only keeps what it is told.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/exchange/gradient_exchange.h"
#include "comm/transport/communicator.h"
#include "core/wall_clock.h"
#include "optim/ranks/rank_beacon.h"
#include "optim/ranks/rank_states.h"

namespace moka {

class RankReporter {
 public:
  enum class Phase : uint8_t { kStarting, kTraining, kTesting, kWriting, kEnded };
  struct Setting {
    std::filesystem::path run_folder;
    double deadline_s = 0;  // of waits for other ranks
    int ranks = 1;          // that share the data
    int64_t batch = 0;      // samples that all ranks share out among them; 0: any number of ranks will do
  };

  // The work of this rank, set by its own thread; read by others.
  void SetPhase(Phase phase) { phase_ = phase; }
  void SetIteration(int64_t iteration) { iteration_ = iteration; }
  // It ends by its own fault.
  void SetFailed(int exit_code);

  // From now on this rank says in the run's folder what it is doing, and names who holds up the others. World and
  // exchange (null: there is none) must outlive it. Once. Errors: kCantCreate.
  void Start(Communicator& world, const GradientExchange* exchange, Setting setting);

 private:
  RankState Look();
  // Called by the thread that gives up waiting. What it finds is written at once: mpirun ends the others soon after.
  std::string Diagnose();

  std::atomic<Phase> phase_ = Phase::kStarting;
  std::atomic<bool> has_failed_ = false;
  std::atomic<int> exit_code_ = 0;
  std::atomic<int64_t> iteration_ = 0;
  const double born_s_ = SecondsSince1970();  // what ranks have written before is of an earlier session
  Communicator* world_ = nullptr;
  const GradientExchange* exchange_ = nullptr;
  Setting setting_;
  std::mutex lost_mutex_;               // of the next
  std::optional<Culprit> lost_;         // whom this rank gave up waiting for
  std::unique_ptr<RankBeacon> beacon_;  // last: its thread reads the others
};

}  // namespace moka

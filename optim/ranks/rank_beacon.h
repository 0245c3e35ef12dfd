// Writes what a rank of a training is doing, at intervals and when it is asked to stop, to the run's folder by a thread
// of its own: a rank that hangs or is gone is told by its file (optim/ranks/rank_states.h), without MPI and without the
// rank's help.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "optim/ranks/rank_states.h"

namespace moka {

class RankBeacon {
 public:
  // `look` is called by the beacon's thread and by Write; rank, host, pid, time and whether it was asked to stop are
  // filled in after it. Errors: kCantCreate.
  RankBeacon(std::filesystem::path run_folder, int rank, std::string host, std::function<RankState()> look,
             std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~RankBeacon();
  RankBeacon(const RankBeacon&) = delete;
  RankBeacon& operator=(const RankBeacon&) = delete;
  // Now; any thread.
  void Write();

 private:
  std::filesystem::path folder_;
  int rank_;
  std::string host_;
  std::function<RankState()> look_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;        // of the file
  std::mutex sleep_mutex_;  // of ends_
  std::condition_variable_any ends_;
  std::jthread thread_;
};

}  // namespace moka

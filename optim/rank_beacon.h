// What a rank of a training is doing, written about once a second to the run's folder by a thread of its own: a rank
// that hangs or is gone is told by its file (optim/rank_states.h), without MPI and without the rank's help.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "optim/rank_states.h"

namespace moka {

class RankBeacon {
 public:
  // `look` is called by the beacon's thread; rank, host, pid and time are filled in after it. Errors: kCantCreate.
  RankBeacon(std::filesystem::path run_folder, int rank, std::string host, std::function<RankState()> look);
  ~RankBeacon();
  RankBeacon(const RankBeacon&) = delete;
  RankBeacon& operator=(const RankBeacon&) = delete;

 private:
  void Write() const;

  std::filesystem::path folder_;
  int rank_;
  std::string host_;
  std::function<RankState()> look_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread thread_;
};

}  // namespace moka

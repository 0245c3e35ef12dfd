// What each rank of a training is doing, in the run's folder: ranks/rank-N.json, written about once a second by a
// thread of its own. A rank that hangs or is gone is told by its file, without MPI and without the rank's help.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace moka {

struct RankStatus {
  int rank = 0;
  std::string host = {};
  int64_t pid = 0;
  std::string state = {};   // "starting", "training", "waiting", "testing", "writing", "ended", "failed"
  int64_t iteration = 0;    // of the training, the one being computed
  int64_t collectives = 0;  // all-reduces begun
  int bucket = -1;          // being summed; -1: none
  std::string layer = {};   // whose gradient was the last
  double updated_s = 0;     // since the epoch
};

std::filesystem::path RankFile(const std::filesystem::path& run_folder, int rank);
// The statuses of all ranks that have one, by rank. A file that cannot be read is left out.
std::vector<RankStatus> ReadRankStatuses(const std::filesystem::path& run_folder);

// Who holds up the others, of `ranks` ranks at time `now_s`: those whose file is older than `silent_s`; if all live,
// those that have begun fewer all-reduces than the others. Empty: nobody differs.
std::vector<RankStatus> FindLaggards(const std::vector<RankStatus>& statuses, double now_s, double silent_s);
// "rank 2 on node7 (process 4711) has given no sign of life for 5.2 s; it was training in iteration 117, ...".
std::string DescribeLaggard(const RankStatus& status, double now_s, double silent_s);

class RankBeacon {
 public:
  static constexpr double kInterval_s = 1;
  static constexpr double kSilent_s = 3 * kInterval_s;

  // `look` is called by the beacon's thread; rank, host, pid and time are filled in after it. Errors: kCantCreate.
  RankBeacon(std::filesystem::path run_folder, int rank, std::string host, std::function<RankStatus()> look);
  ~RankBeacon();
  RankBeacon(const RankBeacon&) = delete;
  RankBeacon& operator=(const RankBeacon&) = delete;

 private:
  void Write() const;

  std::filesystem::path folder_;
  int rank_;
  std::string host_;
  std::function<RankStatus()> look_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread thread_;
};

}  // namespace moka

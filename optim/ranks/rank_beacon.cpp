// A thread looks for a request to stop several times a second and writes at intervals; the destructor writes once more,
// so that the last state is there.
#include "optim/ranks/rank_beacon.h"

#include <unistd.h>

#include <algorithm>

#include "core/wall_clock.h"
#include "optim/signals.h"

namespace moka {
namespace {

// The time between looks for a request to stop: mpirun kills a second after it has asked.
constexpr std::chrono::milliseconds kLook(100);

}  // namespace

RankBeacon::RankBeacon(std::filesystem::path run_folder, int rank, std::string host, std::function<RankState()> look,
                       std::chrono::milliseconds interval)
    : folder_(std::move(run_folder)), rank_(rank), host_(std::move(host)), look_(std::move(look)), interval_(interval) {
  std::error_code failed;  // what cannot be made cannot be written either, which Write takes
  std::filesystem::create_directory(folder_ / "ranks", failed);
  Write();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(sleep_mutex_);
    auto written = std::chrono::steady_clock::now();
    bool was_asked = false;
    while (!stop.stop_requested()) {
      ends_.wait_for(lock, stop, std::min(kLook, interval_), [] { return false; });
      const bool is_asked = SignalRequests::WasAskedToStop();
      const auto now = std::chrono::steady_clock::now();
      if (now < written + interval_ && is_asked == was_asked) continue;
      Write();
      was_asked = is_asked;
      written = now;
    }
  });
}

RankBeacon::~RankBeacon() {
  thread_.request_stop();
  thread_.join();
  Write();
}

void RankBeacon::Write() {
  const std::lock_guard lock(mutex_);
  RankState state = look_();
  state.is_stopping = SignalRequests::WasAskedToStop();
  state.rank = rank_;
  state.host = host_;
  state.pid = ::getpid();
  state.updated_s = SecondsSince1970();
  WriteRankState(folder_, state);
}

}  // namespace moka

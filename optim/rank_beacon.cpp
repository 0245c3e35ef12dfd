#include "optim/rank_beacon.h"

#include <unistd.h>

#include <chrono>

#include "core/file.h"

namespace moka {
namespace {

constexpr std::chrono::seconds kInterval(1);

}  // namespace

RankBeacon::RankBeacon(std::filesystem::path run_folder, int rank, std::string host, std::function<RankState()> look)
    : folder_(std::move(run_folder)), rank_(rank), host_(std::move(host)), look_(std::move(look)) {
  CreateFolders(folder_ / "ranks");
  Write();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      ends_.wait_for(lock, stop, kInterval, [] { return false; });
      Write();
    }
  });
}

RankBeacon::~RankBeacon() {
  thread_.request_stop();
  thread_.join();
  Write();
}

void RankBeacon::Write() const {
  RankState state = look_();
  state.rank = rank_;
  state.host = host_;
  state.pid = ::getpid();
  state.updated_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  WriteRankState(folder_, state);
}

}  // namespace moka

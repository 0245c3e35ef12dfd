#include "optim/rank_beacon.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Tenths of a second.
std::string SecondsText(double seconds) {
  const auto tenths = static_cast<int64_t>(std::max(seconds, 0.0) * 10);
  return StrCat(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

fs::path RankFile(const fs::path& run_folder, int rank) {
  return run_folder / "ranks" / StrCat("rank-", rank, ".json");
}

std::vector<RankStatus> ReadRankStatuses(const fs::path& run_folder) {
  std::vector<RankStatus> all;
  std::error_code code;
  if (!fs::is_directory(run_folder / "ranks", code)) return all;
  for (const fs::path& path : ListFiles(run_folder / "ranks", ".json")) {
    try {
      const nlohmann::json json = nlohmann::json::parse(ReadFile(path, 1 << 20));
      RankStatus status;
      json.at("rank").get_to(status.rank);
      json.at("host").get_to(status.host);
      json.at("pid").get_to(status.pid);
      json.at("state").get_to(status.state);
      json.at("iteration").get_to(status.iteration);
      json.at("collectives").get_to(status.collectives);
      json.at("bucket").get_to(status.bucket);
      json.at("layer").get_to(status.layer);
      json.at("updated_s").get_to(status.updated_s);
      all.push_back(std::move(status));
    } catch (const std::exception&) {
      continue;
    }
  }
  std::ranges::sort(all, {}, &RankStatus::rank);
  return all;
}

std::vector<RankStatus> FindLaggards(const std::vector<RankStatus>& statuses, double now_s, double silent_s) {
  std::vector<RankStatus> found;
  for (const RankStatus& status : statuses) {
    if (now_s - status.updated_s > silent_s) found.push_back(status);
  }
  if (!found.empty() || statuses.empty()) return found;
  const auto [least, most] = std::ranges::minmax_element(statuses, {}, &RankStatus::collectives);
  if (least->collectives == most->collectives) return found;
  for (const RankStatus& status : statuses) {
    if (status.collectives == least->collectives) found.push_back(status);
  }
  return found;
}

std::string DescribeLaggard(const RankStatus& status, double now_s, double silent_s) {
  std::string text = StrCat("rank ", status.rank, " on ", status.host, " (process ", status.pid, ")");
  const double silent = now_s - status.updated_s;
  text += silent > silent_s ? StrCat(" has given no sign of life for ", SecondsText(silent), "; it was ")
                            : std::string(" lives, and is ");
  text += StrCat(status.state, " in iteration ", status.iteration, ", ", status.collectives, " all-reduces begun");
  if (status.bucket >= 0) text += StrCat(", in bucket ", status.bucket);
  if (!status.layer.empty()) text += StrCat(", last gradient that of layer \"", status.layer, "\"");
  return text;
}

RankBeacon::RankBeacon(fs::path run_folder, int rank, std::string host, std::function<RankStatus()> look)
    : folder_(std::move(run_folder)), rank_(rank), host_(std::move(host)), look_(std::move(look)) {
  CreateFolders(folder_ / "ranks");
  Write();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      ends_.wait_for(lock, stop, std::chrono::duration<double>(kInterval_s), [] { return false; });
      Write();
    }
  });
}

RankBeacon::~RankBeacon() {
  thread_.request_stop();
  thread_.join();
  Write();
}

// Whole or not at all, but not safe against power loss, which would end the rank as well.
void RankBeacon::Write() const {
  RankStatus status = look_();
  const nlohmann::ordered_json json{{"rank", rank_},
                                    {"host", host_},
                                    {"pid", ::getpid()},
                                    {"state", status.state},
                                    {"iteration", status.iteration},
                                    {"collectives", status.collectives},
                                    {"bucket", status.bucket},
                                    {"layer", status.layer},
                                    {"updated_s", Now()}};
  const fs::path path = RankFile(folder_, rank_);
  fs::path temporary = path;
  temporary += ".new";
  std::ofstream(temporary) << json.dump() << "\n";
  std::error_code code;
  fs::rename(temporary, path, code);  // a beacon that cannot be written is silent, which is what it would say
}

}  // namespace moka

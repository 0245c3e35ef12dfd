// A beacon writes the rank's state at intervals; a wait that has lasted too long reads those of all and finds who is
// at fault.
#include "optim/ranks/rank_reporter.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

namespace moka {
namespace {

// Between what hosts write and what others read of it.
constexpr double kClockSlackS = 1.0;

constexpr std::array<const char*, 5> kPhaseNames = {"starting", "training", "testing", "writing", "ended"};

}  // namespace

void RankReporter::SetFailed(int exit_code) {
  exit_code_ = exit_code;
  has_failed_ = true;
}

void RankReporter::Start(Communicator& world, const GradientExchange* exchange, Setting setting) {
  world_ = &world;
  exchange_ = exchange;
  setting_ = std::move(setting);
  const int rank = world.rank();
  // Several times a deadline, so that what ranks write tells them apart at its end.
  const auto interval =
      std::chrono::milliseconds(std::clamp<int64_t>(std::llround(setting_.deadline_s * 125), 20, 1000));
  beacon_ = std::make_unique<RankBeacon>(
      setting_.run_folder, rank, world.hosts()[static_cast<size_t>(rank)], [this] { return Look(); }, interval);
  const double fresh_s = std::min(setting_.deadline_s, kSilentS) + kClockSlackS;
  world.SetWatch(
      {.is_working = [folder = setting_.run_folder, rank,
                      fresh_s] { return IsOneWorking(ReadRankStates(folder, 0), rank, SecondsSince1970() - fresh_s); },
       .diagnose = [this] { return Diagnose(); }});
}

RankState RankReporter::Look() {
  const ExchangePlace exchanged = exchange_ != nullptr ? exchange_->Place() : ExchangePlace{.layer = {}};
  const WaitPlace place = world_->place();
  RankState state;
  state.state = has_failed_ ? RankState::kFailed : kPhaseNames.at(static_cast<size_t>(phase_.load()));
  state.exit_code = exit_code_;
  state.iteration = iteration_;
  state.collective = place.collective;
  state.round = place.round;
  state.is_sending = place.is_sending;
  state.waits_for = place.peers;
  state.bucket = exchanged.bucket;
  state.layer = exchanged.layer;
  state.batch = setting_.batch;
  const std::lock_guard lock(lost_mutex_);
  if (lost_) {
    state.lost = lost_->rank;
    state.verdict = lost_->text;
  }
  return state;
}

std::string RankReporter::Diagnose() {
  beacon_->Write();
  const std::optional<Culprit> culprit = FindCulprit(ReadRankStates(setting_.run_folder, born_s_), setting_.ranks);
  if (!culprit) return {};
  {
    const std::lock_guard lock(lost_mutex_);
    lost_ = culprit;
  }
  beacon_->Write();
  return culprit->text + "; ";
}

}  // namespace moka

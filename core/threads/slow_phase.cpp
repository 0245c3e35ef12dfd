// A thread waits on a condition for a second and speaks if the phase is still there. In a quiet scope none is made.
#include "core/threads/slow_phase.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "core/log.h"
#include "core/quiet_scope.h"

namespace moka {
namespace {

constexpr std::chrono::seconds kPatience(1);

}  // namespace

SlowPhase::SlowPhase(std::string name) : name_(std::move(name)) {
  if (IsQuiet()) return;
  try {
    watcher_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    // A system without a thread to spare gets the work done without the word.
  }
}

SlowPhase::~SlowPhase() {
  if (!watcher_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  watcher_.join();
}

void SlowPhase::Watch() {
  std::unique_lock lock(mutex_);
  if (!over_.wait_for(lock, kPatience, [this] { return is_over_; })) LogInfo(name_ + " ...");
}

}  // namespace moka

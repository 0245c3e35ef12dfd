// Waits for a stream without blocking in the driver: a rank that died leaves its peers' NCCL kernels spinning for ever,
// so the host polls an event, asks for failures and gives up by the clock.
#include "comm/device/device_all_reduce.h"

#include <thread>

namespace moka {
namespace {

constexpr std::chrono::microseconds kNap(50);   // a blocking wait for an event wakes up no sooner
constexpr std::chrono::milliseconds kLook(20);  // between looks at the sums

}  // namespace

StreamWait WaitForStream(const Event& done, DeviceAllReduce& all_reduce, std::chrono::nanoseconds patience,
                         const std::function<bool()>& has_moved) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point moved = Clock::now();
  Clock::time_point looked = moved;
  StreamWait wait;
  while (!wait.is_done) {
    wait.is_done = done.IsDone();
    if (wait.is_done) break;
    const Clock::time_point now = Clock::now();
    if (now - looked >= kLook) {
      looked = now;
      wait.failure = all_reduce.Failure();
      if (!wait.failure.empty()) return wait;
      if (has_moved()) moved = now;
      if (!all_reduce.runs_schedules() && now - moved >= patience) return wait;  // schedules have deadlines themselves
    }
    std::this_thread::sleep_for(kNap);
  }
  wait.failure = all_reduce.Failure();
  return wait;
}

}  // namespace moka

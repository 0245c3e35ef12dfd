#include "comm/device/device_all_reduce.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "comm/device/nccl_all_reduce.h"
#include "comm/schedule/runner.h"
#include "core/error.h"

namespace moka {
namespace {

constexpr std::chrono::microseconds kDeviceAllReduceNap(50);   // a blocking wait for an event wakes up no sooner
constexpr std::chrono::milliseconds kDeviceAllReduceLook(20);  // between looks at the sums

// The memory is the host's and the stream a thread: schedules run there as they do beside a training on the CPU.
class RehearsedAllReduce : public DeviceAllReduce {
 public:
  explicit RehearsedAllReduce(Communicator& communicator) : communicator_(communicator) {}

  bool runs_schedules() const override { return true; }
  void Connect(Stream& /*stream*/) override {}
  void Queue(const Message& message, const Schedule& schedule, Wire wire, Stream& stream) override {
    auto runner = std::make_shared<Runner>(communicator_.transport(), schedule, wire);
    stream.Rehearse([this, message, runner = std::move(runner)] { Run(*runner, message); });
  }
  std::string Failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void Abort() noexcept override { is_aborted_ = true; }

 private:
  // In the stream's thread, which has nobody to throw to.
  void Run(Runner& runner, const Message& message) {
    if (is_aborted_ || !Failure().empty()) return;
    try {
      runner.Run(message, communicator_.patience(), &is_aborted_);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
    }
  }

  Communicator& communicator_;
  std::atomic<bool> is_aborted_ = false;
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace

std::unique_ptr<DeviceAllReduce> MakeDeviceAllReduce(const Device& device, Communicator& communicator) {
  Require(!device.is_cpu(), "gradients of a CPU's program are summed beside it");
  if (device.is_rehearsed()) return std::make_unique<RehearsedAllReduce>(communicator);
  return MakeNcclAllReduce(communicator, PlaceOfGpu(device, communicator));
}

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
    if (now - looked >= kDeviceAllReduceLook) {
      looked = now;
      wait.failure = all_reduce.Failure();
      if (!wait.failure.empty()) return wait;
      if (has_moved()) moved = now;
      if (!all_reduce.runs_schedules() && now - moved >= patience) return wait;  // schedules have deadlines themselves
    }
    std::this_thread::sleep_for(kDeviceAllReduceNap);
  }
  wait.failure = all_reduce.Failure();
  return wait;
}

}  // namespace moka

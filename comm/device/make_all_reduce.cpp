// Chooses NCCL or a rehearsal for a device. A rehearsed device's sums run schedules in the thread that plays its
// stream.
#include "comm/device/make_all_reduce.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "comm/device/nccl_all_reduce.h"
#include "comm/schedule/runner.h"
#include "core/error.h"

namespace moka {
namespace {

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

}  // namespace moka

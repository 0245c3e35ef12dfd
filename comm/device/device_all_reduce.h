// Sums over all ranks of what lies in a device's memory, as work of a stream: by NCCL on GPUs
// (comm/device/nccl_all_reduce.cpp), by a schedule on a rehearsed one. One thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/schedule/message.h"
#include "comm/schedule/schedule.h"
#include "comm/schedule/wire.h"
#include "core/device/device.h"

namespace moka {

class DeviceAllReduce {
 public:
  DeviceAllReduce() = default;
  DeviceAllReduce(const DeviceAllReduce&) = delete;
  DeviceAllReduce& operator=(const DeviceAllReduce&) = delete;
  virtual ~DeviceAllReduce() = default;

  // Whether it follows the schedules it is given, over the communicator's transport. Otherwise it has one way of its
  // own, and schedules may be empty.
  virtual bool runs_schedules() const = 0;
  // All ranks, once, before the first Queue: finds the others. Errors: kUnavailable naming the rank that lacks
  // something, kPeer.
  virtual void Connect(Stream& stream) = 0;
  // All ranks, in one order: queues the sum of a message in place. May be recorded. Errors: kUnavailable, kPeer.
  virtual void Queue(const Message& message, const Schedule& schedule, Wire wire, Stream& stream) = 0;
  // Why the sums of this iteration are worth nothing, perhaps in the words of another rank; empty while all is well.
  virtual std::string Failure() = 0;
  // Sums under way end soon, whatever they hold then; later ones are not begun.
  virtual void Abort() noexcept = 0;
};

// How a wait for a stream ended.
struct StreamWait {
  bool is_done = false;  // the stream's work is; otherwise nothing was done for `patience`, or the sums have failed
  std::string failure;   // that of the sums
};
// Sleeps until the event `done`, recorded last, has come, and looks at the sums meanwhile. `has_moved` is asked now and
// then: a stream that moves has its patience back.
StreamWait WaitForStream(const Event& done, DeviceAllReduce& all_reduce, std::chrono::nanoseconds patience,
                         const std::function<bool()>& has_moved);

}  // namespace moka

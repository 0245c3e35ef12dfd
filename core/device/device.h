// Devices and their streams: work that a device does by itself, in order, while the caller goes on. A GPU's engine does
// it, or, for the CPU, a thread a stream: the same calls with the same meaning, so that what is built on streams runs
// and is tested where there is no GPU. A program of the CPU needs no stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/tensor.h"

namespace moka {

// "CPU", "GPU 0", "rehearsed GPU".
std::string NameOf(const Device& device);

struct GpuFacts {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int64_t memory_bytes = 0;  // in all, not what is free
  int capability = 0;        // compute capability times ten: 90
};

// The version of CUDA's runtime in this binary: "13.0"; empty when it was built without.
std::string CudaRuntime();

// The facts of CUDA on this machine. The GPU of Device{kCuda, i} is gpus[i].
struct CudaFacts {
  std::string driver;   // newest version that the installed driver runs; empty without a driver
  std::string missing;  // why there is no GPU to use: "CUDA driver not found"; empty when there is one
  std::vector<GpuFacts> gpus;
};
// Looks now. Never fails: what is in the way is said in `missing`.
CudaFacts FindCuda();

// Bytes that a device reads or writes by itself: its own memory, or pinned memory of the host. Move-only. Unlike a
// Buffer's, a stream's bytes go back in the stream's order: after all work put into it so far.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // The bytes go back when the last owner of `memory` is gone.
  DeviceBuffer(std::shared_ptr<std::byte> memory, int64_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  std::byte* data() const { return memory_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<std::byte> memory_;
  int64_t bytes_ = 0;
};

// Host memory, zeroed, that the device copies from and to by itself (pinned); for the CPU plain memory, aligned as a
// Buffer's. Expensive: for pools. Errors: kUnavailable naming the bytes.
DeviceBuffer AllocatePinned(const Device& device, int64_t bytes);

// A place in a stream's order that others wait for. It stands for its last Record; before the first it is done.
// Any thread may ask; one stream at a time records.
class Event {
 public:
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  // Whether the stream has come to the place. Errors: those of work before it (GPUs only), here and below.
  virtual bool IsDone() const = 0;
  // Sleeps until it has.
  virtual void Wait() const = 0;
  // Milliseconds between two places that are done, negative if this came before `start`. Requires: both were recorded.
  virtual double MillisSince(const Event& start) const = 0;

 protected:
  Event() = default;
};
// Errors: kUnavailable when there is no such device.
std::unique_ptr<Event> MakeEvent(const Device& device);

class Stream;

// Work of a stream, recorded to be done again and again for the price of one call.
class Recording {
 public:
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;

  // Queues all of it. Requires: a stream of the device it was recorded on; it and the memory it names last until it is
  // done.
  virtual void Launch(Stream& stream) const = 0;

 protected:
  Recording() = default;
};

// An ordered queue of work; two streams have no order but that of events. Calls return when the work is queued; one
// thread at a time. Errors of a GPU (kUnavailable) come from the call or, of work queued earlier, from a later one.
class Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;  // all work is done

  const Device& device() const { return device_; }

  // Requires: both ends last until the copy is done, and the host's is pinned: other memory is copied from while the
  // caller waits.
  virtual void CopyToDevice(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void CopyToHost(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void CopyOnDevice(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // Calls a function of the host. Requires: it neither throws nor calls a stream or an event.
  virtual void Call(void (*function)(void*), void* argument) = 0;
  virtual void Zero(std::byte* to, int64_t bytes) = 0;

  // The stream as the GPU's own libraries know it (cudaStream_t); null where a thread of the CPU does the work.
  virtual void* native() const = 0;
  // Calls a function of the host in the place of a GPU's. Requires: no native(); as for Call.
  virtual void Rehearse(std::function<void()> function) = 0;

  // From here on work is recorded and not done until EndRecording gives it. A stream that waits for an event recorded
  // meanwhile joins in, outlives the recording and is waited for before it ends; events are recorded anew by a Launch.
  virtual void BeginRecording() = 0;
  virtual std::unique_ptr<Recording> EndRecording() = 0;

  virtual void Record(Event& event) = 0;
  // Work queued from here on begins when the event's last Record so far is done. Requires: an event of this kind of
  // device.
  virtual void WaitFor(const Event& event) = 0;
  // Sleeps until all work is done.
  virtual void Synchronize() = 0;

  // Memory of the device, from a pool, for work queued from here on. Its contents are undefined. It may outlive the
  // stream. Errors: kUnavailable naming the bytes asked for and, on a GPU, those that are free.
  virtual DeviceBuffer Allocate(int64_t bytes) = 0;

 protected:
  explicit Stream(const Device& device) : device_(device) {}

 private:
  Device device_;
};
// Errors: kUnavailable when there is no such device.
std::unique_ptr<Stream> MakeStream(const Device& device);

}  // namespace moka

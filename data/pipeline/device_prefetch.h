// A pipeline's batches in a device's memory, ahead of the step that reads them. A thread of its own takes them from the
// pipeline and queues their copies on a stream of its own:
//
//   slot of batch b = b mod slots:
//     free --the pipeline's batch b, copies queued--> ahead --Next()--> read by the step --Next()--> free for later
//
// Invariants; what crosses from one stream to another is ordered by events, and no thread waits for the device but
// where it says so:
//  1. the step's stream waits for `copied` of batch b before work that is queued after Next() gave it;
//  2. the copy of batch b waits for `consumed` of batch b - slots, recorded on the step's stream by the next Next();
//  3. host memory is written again only after the thread has waited for the `copied` that read it: staging memory is
//     the slot's; memory that the pipeline lends (Pipeline::LendsTo) is copied from where it lies, without staging,
//     and goes back when the next batch is taken;
//  4. slots pass between the two threads through two queues of batch numbers (core/threads/bounded_queue.h); nothing is
//     allocated after the first batch;
//  5. the position counts batches handed out, not those ahead.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/device/device.h"
#include "core/threads/bounded_queue.h"
#include "data/pipeline/pipeline.h"
#include "data/stage_clock.h"

namespace moka {

// One consumer thread.
class DevicePrefetch {
 public:
  // `step` is the stream whose work reads the batches: they come to its device, `slots` of them, the one being read
  // among them. Without a step (null) there are no copies: a CPU's program reads the pipeline's own memory.
  // Requires: the step outlives this; slots >= 1. Errors: kUnavailable when the device has no memory for the slots.
  DevicePrefetch(std::unique_ptr<Pipeline> pipeline, Stream* step, int64_t slots = 2);
  DevicePrefetch(const DevicePrefetch&) = delete;
  DevicePrefetch& operator=(const DevicePrefetch&) = delete;
  ~DevicePrefetch();

  const std::vector<TensorType>& types() const { return pipeline_->types(); }
  // The next batch, for work queued on the step's stream from now until the next call of this or of Seek.
  // Errors: the pipeline's, in their turn: the batches before come first, the position stays, and the next call tries
  // again; a device's.
  std::span<const Tensor> Next();

  // Samples of the batches handed out.
  int64_t position() const { return step_ == nullptr ? pipeline_->position() : position_; }
  // Continues as if `sample` samples had been handed out; batches ahead are dropped.
  void Seek(int64_t sample);
  // The pipeline's, as of the batch handed out last. The times of waiting and copying are the device's: copies, and
  // what the step waited between a batch and the next; each is counted when 2 x slots more batches are out.
  PipelineStatistics statistics() const;

 private:
  struct Slot {
    std::vector<DeviceBuffer> staging;  // a top; none where the pipeline lends
    std::vector<Tensor> staged;
    std::vector<DeviceBuffer> memory;  // a top, on the device
    std::vector<Tensor> tops;
    int64_t position = 0;  // the pipeline's after this batch
    PipelineStatistics statistics;
  };
  // A batch's places in the two streams' order. There are twice as many as slots: the times between those of a batch
  // are read when its slot has been used once more and all of them are done.
  struct Marks {
    std::unique_ptr<Event> begun;     // its copy, on the copy stream
    std::unique_ptr<Event> copied;    // on the copy stream
    std::unique_ptr<Event> consumed;  // on the step's
  };

  int64_t slot_count() const { return static_cast<int64_t>(slots_.size()); }
  Slot& SlotOf(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }
  Marks& MarksOf(int64_t batch) { return marks_[static_cast<size_t>(batch) % marks_.size()]; }

  void MakeSlot(Slot& slot);
  void Start();
  // Ends the thread; batches ahead are dropped. Later copies come after all of the step's work so far.
  void Stop();
  // The thread: batches into free slots, until the pipeline fails or there are to be no more.
  void FillSlots();
  void Fill(int64_t batch);
  void CountTimes(int64_t batch);

  std::unique_ptr<Pipeline> pipeline_;  // the thread's while it runs
  Stream* step_;
  bool lends_ = false;            // the pipeline, to the device
  std::unique_ptr<Stream> copy_;  // the thread's while it runs
  std::unique_ptr<Event> stopped_;
  std::vector<Slot> slots_;
  std::vector<Marks> marks_;

  // Numbers of batches since the thread was started.
  std::unique_ptr<BoundedQueue<int64_t>> free_;  // whose slots may be filled
  std::unique_ptr<BoundedQueue<int64_t>> ahead_;
  std::atomic<bool> is_stopping_ = false;
  std::exception_ptr error_;  // written before ahead_ is closed

  // The consumer's own.
  std::optional<int64_t> held_;  // the batch being read
  int64_t position_ = 0;
  PipelineStatistics statistics_;

  Tally wait_micros_;  // the thread's
  Tally copy_micros_;
  std::jthread thread_;  // last: joined before anything it uses is gone
};

}  // namespace moka

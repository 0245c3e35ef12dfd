// The pipeline over a SampleMaker: worker threads load and transform records into a ring of pooled batches. They start
// with the first batch that is asked for: while nets are built no data is read but the record that gives the shape.
//
//   slot of batch b = b mod ring size:
//     idle --first Next()--> scheduled --last part made--> full --Next()--> scheduled again, for b + ring
//
// Invariants; no lock is taken but for faults:
//  1. when a slot is free, its next batch's parts go into a queue (core/threads/bounded_queue.h), in order; whoever
//     takes a part owns its range of the slot's floats until it counts the part as made;
//  2. who counts the last part marks the slot full, which publishes all that the workers wrote. From there to the
//     scheduling of its next batch the consumer owns the slot;
//  3. what a sample holds depends on its number alone, so batches are the same for any number of workers;
//  4. Seek() and the end set abandoned_: parts are then counted without being made, until every slot is full.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "core/device/device.h"
#include "core/threads/bounded_queue.h"
#include "data/augment/mixer.h"
#include "data/pipeline/pipeline.h"
#include "data/pipeline/sample_maker.h"
#include "data/pipeline/sampler.h"
#include "data/pipeline/worker_tuner.h"

namespace moka {

struct PrefetchOptions {
  int64_t batch_size = 1;
  int64_t batches_ahead = 4;
  WorkerTuner workers = WorkerTuner::Fixed(1);
  enum class OnBadRecord { kStop, kSkip } on_bad_record = OnBadRecord::kStop;
  std::vector<std::string> top_names = {};
  std::optional<Mixer> mixer = std::nullopt;  // of batches of labelled pictures: data [N,C,H,W], label [N]
  Device device = {};                         // slots are pinned for it
};

class PrefetchPipeline : public Pipeline {
 public:
  PrefetchPipeline(std::unique_ptr<const SampleMaker> maker, const SamplerOptions& sampler, PrefetchOptions options);
  ~PrefetchPipeline() override;
  int64_t epoch_size() const override { return maker_->record_count() * rows_; }
  int64_t RecordAt(int64_t global) override { return static_cast<int64_t>(sampler_.OfAll(global).record); }
  bool LendsTo(const Device& device) const override { return CanLend() && device == options_.device; }

 protected:
  void Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) override;
  std::span<const Tensor> Lend(PipelineStatistics& statistics) override;
  void Reposition() override;
  void Collect(PipelineStatistics& statistics) const override;

 private:
  static constexpr int64_t kPart = 8;  // samples made at once
  struct Slot {
    DeviceBuffer data;                    // float [N,C,H,W]
    DeviceBuffer labels;                  // float [N, label_width_]: a sample's labels side by side
    int64_t batch = 0;                    // since the last Seek
    std::atomic<int64_t> parts_left = 0;  // not yet made
    std::atomic<uint32_t> is_full = 0;
    std::atomic<int64_t> bad_records = 0;
    int64_t error_sample = 0;  // in the batch; guarded by faults_ while the slot is being filled
    std::exception_ptr error;  // of the batch's first bad sample; guarded likewise
  };

  // Whether samples and labels lie in a slot as in the tops.
  bool CanLend() const;
  void FindShape();
  void MakeSlots();
  // A full slot to the tops; mixed ones are made on the way.
  void CopyBatch(const Slot& slot, std::span<const Tensor> tops) const;
  // Samples' parts of `size` floats, `stride` apart, to their places in a top, in `steps` parts each.
  void CopyParts(const float* from, int64_t stride, int64_t size, int64_t steps, float* to) const;
  Slot& SlotOf(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }

  // The first batch is asked for: workers start, and all slots are theirs.
  void Begin();
  void ScheduleAll();
  void StartWorkers();
  void Work(int64_t index, WorkerTallies& tallies);
  void Make(int64_t part, SampleScratch& scratch, WorkerTallies& tallies);
  bool FillSample(int64_t n, int64_t item, SampleScratch& scratch, std::span<float> out, std::span<float> label);
  void ReadAhead(int64_t part) const;
  void KeepError(Slot& slot, int64_t sample);
  void ReportSkipped(int64_t record, const Error& error);
  // A part of the slot is made, or was abandoned.
  void CountPart(Slot& slot);
  // The next batch's slot, once it is full; the one that was lent goes back to the workers. Errors: the batch's.
  Slot& Await(PipelineStatistics& statistics);
  // The next batch's slot goes back to the workers; the one after it is the next.
  void Release();
  // Hands a free slot's next batch to the workers.
  void Schedule(int64_t batch);
  void Tune(int64_t wait_micros);

  std::unique_ptr<const SampleMaker> maker_;
  Sampler sampler_;
  PrefetchOptions options_;
  int64_t process_;                   // whose threads the workers are: a forked child has none of them
  Shape sample_shape_;                // [C,H,W]
  int64_t rows_ = 1;                  // of a sample: what positions count
  std::vector<int64_t> label_sizes_;  // floats of a sample, one a top after the first
  int64_t label_width_ = 0;           // their sum
  int64_t parts_a_batch_ = 1;

  // The consumer's own.
  int64_t first_sample_ = 0;  // of batch 0 since the last Seek; workers read it for parts scheduled later
  int64_t consumed_ = 0;      // batches
  int64_t delivered_at_ = 0;  // micros
  int64_t waited_ = 0;        // micros, for the next batch
  bool is_lent_ = false;      // the next batch's slot
  std::vector<Tensor> lent_;

  std::vector<Slot> slots_;
  std::unique_ptr<BoundedQueue<int64_t>> parts_;  // numbered through all batches since the last Seek
  std::atomic<bool> abandoned_ = false;
  std::atomic<int64_t> working_ = 0;  // workers from this index on sleep

  std::mutex faults_;
  std::set<int64_t> reported_;

  std::vector<std::unique_ptr<WorkerTallies>> tallies_;
  std::vector<std::jthread> workers_;  // none before Begin(); last: joined before anything they use is gone
};

}  // namespace moka

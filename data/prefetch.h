// The pipeline over a SampleMaker: worker threads load and transform records into a ring of pooled batches.
//
//   slot of batch b = b mod ring size:   free --all its parts claimed and done--> full --Next()--> free
//
// Invariants, all under one mutex (taken twice for each kPart samples, so it is never hot):
//  1. parts are claimed in order, and only of batches in [consumed, consumed + ring size);
//  2. a slot's floats are written by the parts' owners without the lock, each its own range, and read by Next() only
//     when all parts are done: the mutex orders the two;
//  3. what a sample holds depends on its number alone, so batches are the same for any number of workers.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "data/augment/mixer.h"
#include "data/pipeline.h"
#include "data/sample_maker.h"
#include "data/sampler.h"

namespace moka {

struct PrefetchOptions {
  int64_t batch_size = 1;
  int64_t batches_ahead = 4;
  int64_t threads = 1;
  enum class OnBadRecord { kStop, kSkip } on_bad_record = OnBadRecord::kStop;
  std::vector<std::string> top_names = {};
  std::optional<Mixer> mixer = std::nullopt;  // of batches of labelled pictures: data [N,C,H,W], label [N]
};

class PrefetchPipeline : public Pipeline {
 public:
  PrefetchPipeline(std::unique_ptr<const SampleMaker> maker, const SamplerOptions& sampler, PrefetchOptions options);
  ~PrefetchPipeline() override;
  int64_t epoch_size() const override { return maker_->record_count() * rows_; }

 protected:
  void Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) override;
  void Reposition() override;

 private:
  static constexpr int64_t kPart = 8;  // samples claimed at once
  struct Slot {
    Buffer data;    // float [N,C,H,W]
    Buffer labels;  // float [N, label_width_]: a sample's labels side by side
    int64_t parts_done = 0;
    int64_t bad_records = 0;
    int64_t error_sample = 0;  // in the batch
    std::exception_ptr error;  // of the batch's first bad sample
  };
  struct Part {
    Slot* slot = nullptr;
    int64_t first_sample = 0;  // of the batch, in this rank's order
    int64_t begin = 0;         // [begin, end) in the batch
    int64_t end = 0;
  };

  void FindShape();
  // A full slot to the tops; mixed ones are made on the way.
  void CopyBatch(const Slot& slot, std::span<const Tensor> tops) const;
  // Samples' parts of `size` floats, `stride` apart, to their places in a top.
  void CopyParts(const float* from, int64_t stride, int64_t size, float* to) const;
  void Work(const std::stop_token& stop);
  bool Claim(const std::stop_token& stop, Part& part);
  void Fill(const Part& part, SampleScratch& scratch);
  bool FillSample(int64_t n, int64_t item, SampleScratch& scratch, std::span<float> out, std::span<float> label);
  void ReportSkipped(int64_t record, const Error& error);

  std::unique_ptr<const SampleMaker> maker_;
  Sampler sampler_;
  PrefetchOptions options_;
  Shape sample_shape_;                // [C,H,W]
  int64_t rows_ = 1;                  // of the first top that a sample has: what positions count
  std::vector<int64_t> label_sizes_;  // floats of a sample, one a top after the first
  int64_t label_width_ = 0;           // their sum
  int64_t parts_a_batch_ = 1;

  std::mutex mutex_;
  std::condition_variable_any space_;  // workers: a batch may be claimed
  std::condition_variable ready_;      // Next(): a batch is full; Seek(): no part is being filled
  std::vector<Slot> slots_;
  int64_t first_sample_ = 0;  // of batch 0 since the last Seek
  int64_t next_part_ = 0;
  int64_t consumed_ = 0;  // batches
  int64_t busy_ = 0;      // workers filling a part
  bool paused_ = false;   // while Seek waits for them
  std::set<int64_t> reported_;

  std::vector<std::jthread> workers_;  // last: joined before anything they use is gone
};

}  // namespace moka

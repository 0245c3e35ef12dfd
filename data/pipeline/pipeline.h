// Batches for a data layer, from databases, HDF5 files, lists of pictures, fillers or the caller. Batches come in an
// order that is a pure function of the seed and are bit-identical whatever the number of worker threads. Opening one
// reads what gives its shapes; batches are read ahead from the first Next() or NextInPlace() on, and not before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "data/pipeline/statistics.h"
#include "proto/moka.pb.h"

namespace moka {

struct PipelineOptions {
  Phase phase = TRAIN;
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t world = 1;
  bool whole_batches = false;              // ranks take batches by turns, as one would make them, not samples
  int64_t threads = 0;                     // decoding threads; 0: the layer's own number, or tuned
  std::filesystem::path base_folder = {};  // relative paths of the layer start here
  SolverParameter::RecordChecks record_checks = SolverParameter::EVERY_READ;
  Device device = {};  // that the batches go to: pooled ones lie where it copies from
};

// One consumer thread. Owned by the Trainer.
class Pipeline {
 public:
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  virtual ~Pipeline() = default;

  // One a top: data float32[N,C,H,W], then the label float32[N] if the layer has a second top; AnnotatedData's is the
  // ground truth [1,1,G,8], label images are [N,1,H,W] (data/pipeline/sample_maker.h). HDF5 files say their own.
  const std::vector<TensorType>& types() const { return types_; }
  const std::vector<std::string>& top_names() const { return top_names_; }

  // Writes the next batch. Requires: tops have types(). Errors: those of a bad record, naming file, key and index;
  // the position does not move then. Allocates nothing once all buffers have been used.
  void Next(std::span<const Tensor> tops);
  // The next batch where the pipeline made it, without the copy of Next. It lasts until the next call of either, or of
  // Seek. Errors: as Next.
  std::span<const Tensor> NextInPlace();
  // Whether NextInPlace gives memory that this device copies from by itself (core/device/device.h).
  virtual bool LendsTo(const Device& /*device*/) const { return false; }

  // Samples this rank has consumed: with the seed, the pipeline's whole state.
  int64_t position() const { return position_; }
  // Continues as if `sample` samples had been consumed.
  void Seek(int64_t sample);
  // Records of the data set (all ranks together); 0 when there is no end (DummyData).
  virtual int64_t epoch_size() const = 0;
  // The record of all ranks' n-th sample; -1 where samples are no records in an order. It reads no data.
  virtual int64_t RecordAt(int64_t /*global*/) { return -1; }
  int64_t batch_size() const {
    if (batch_size_ > 0) return batch_size_;
    return types_.empty() || types_[0].shape.rank() == 0 ? 1 : types_[0].shape[0];
  }
  // To be called by the consumer's thread.
  PipelineStatistics statistics() const {
    PipelineStatistics all = statistics_;
    Collect(all);
    return all;
  }

 protected:
  Pipeline() = default;
  // Writes the batch that starts at position().
  virtual void Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) = 0;
  // The same batch in place; none if it has to be delivered.
  virtual std::span<const Tensor> Lend(PipelineStatistics& /*statistics*/) { return {}; }
  virtual void Reposition() {}
  // Adds what workers have counted.
  virtual void Collect(PipelineStatistics& /*statistics*/) const {}

  std::vector<TensorType> types_;
  std::vector<std::string> top_names_;
  int64_t batch_size_ = 0;  // 0: the first axis of the first top

 private:
  void CountBatch();

  int64_t position_ = 0;
  int64_t first_next_ = -1;
  std::vector<OwnedTensor> own_memory_;  // of NextInPlace, where a batch is delivered
  std::vector<Tensor> own_tops_;
  PipelineStatistics statistics_;
};

// XXH64 of the tops' bytes, each seeded with the hash of the one before: equal batches have equal hashes on machines of
// one byte order.
uint64_t HashBatch(std::span<const Tensor> tops);

}  // namespace moka

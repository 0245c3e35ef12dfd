// The counting and copying of all pipelines.
#include "data/pipeline/pipeline.h"

#include "core/checksum.h"
#include "core/trace.h"

namespace moka {

void Pipeline::Next(std::span<const Tensor> tops) {
  Require(tops.size() == types_.size(), "Pipeline::Next: one tensor a top");
  for (size_t i = 0; i < tops.size(); ++i) Require(tops[i].type() == types_[i], "Pipeline::Next: tops have types()");
  const ScopedSpan span("next batch", "data");
  if (first_next_ < 0) first_next_ = NowMicros();
  Deliver(tops, statistics_);
  CountBatch();
}

std::span<const Tensor> Pipeline::NextInPlace() {
  const ScopedSpan span("next batch", "data");
  if (first_next_ < 0) first_next_ = NowMicros();
  std::span<const Tensor> tops = Lend(statistics_);
  if (tops.empty()) {
    if (own_tops_.empty()) {
      for (const TensorType& type : types_) own_tops_.push_back(own_memory_.emplace_back(type).tensor());
    }
    tops = own_tops_;
    Deliver(tops, statistics_);
  }
  CountBatch();
  return tops;
}

void Pipeline::CountBatch() {
  position_ += batch_size();
  ++statistics_.batches;
  statistics_.samples += batch_size();
  statistics_.total_micros = NowMicros() - first_next_;
}

void Pipeline::Seek(int64_t sample) {
  Require(sample >= 0, "Pipeline::Seek: a sample number is not negative");
  if (sample == position_) return;
  position_ = sample;
  Reposition();
}

uint64_t HashBatch(std::span<const Tensor> tops) {
  uint64_t hash = 0;
  for (const Tensor& top : tops) {
    hash = Hash64({static_cast<const char*>(top.raw()), static_cast<size_t>(top.type().Bytes())}, hash);
  }
  return hash;
}

}  // namespace moka

#include "data/prefetch.h"

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "core/size.h"
#include "core/team.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

float* FloatsOf(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

// A record may be bad by itself; anything else (memory, our own bugs) is never skipped.
bool IsRecordFault(const Error& error) {
  return error.kind() == ErrorKind::kBadData || error.kind() == ErrorKind::kNoInput ||
         error.kind() == ErrorKind::kNotAllowed || error.kind() == ErrorKind::kIo;
}

}  // namespace

PrefetchPipeline::PrefetchPipeline(std::unique_ptr<const SampleMaker> maker, const SamplerOptions& sampler,
                                   PrefetchOptions options)
    : maker_(std::move(maker)), sampler_(sampler), options_(std::move(options)) {
  top_names_ = options_.top_names;
  FindShape();
  const int64_t batch = options_.batch_size;
  types_.push_back({DType::kFloat32, maker_->DataTop(batch, sample_shape_), {}});
  rows_ = types_[0].shape[0] / batch;
  const std::vector<Shape> labels = maker_->LabelShapes(batch, sample_shape_);
  Require(top_names_.size() <= labels.size() + 1, "PrefetchPipeline: the maker fills every top");
  for (const Shape& label : labels) {
    label_sizes_.push_back(label.Count() / batch);
    label_width_ += label_sizes_.back();
    if (types_.size() < top_names_.size()) types_.push_back({DType::kFloat32, label, {}});
  }
  if (options_.mixer) types_.at(1).shape = {batch, options_.mixer->classes()};
  parts_a_batch_ = (batch + kPart - 1) / kPart;
  slots_.resize(static_cast<size_t>(options_.batches_ahead + 1));
  for (Slot& slot : slots_) {
    slot.data = Buffer::Allocate(types_[0].Bytes());
    slot.labels = Buffer::Allocate((Size(batch) * label_width_ * 4).value());
  }
  workers_.reserve(static_cast<size_t>(options_.threads));
  for (int64_t i = 0; i < options_.threads; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

PrefetchPipeline::~PrefetchPipeline() {
  for (std::jthread& worker : workers_) worker.request_stop();
}

// The first good record that the sampler names gives the shape of all.
void PrefetchPipeline::FindShape() {
  SampleScratch scratch;
  const bool skips = options_.on_bad_record == PrefetchOptions::OnBadRecord::kSkip;
  const int64_t tries = skips ? maker_->record_count() : 1;
  const auto first = static_cast<int64_t>(sampler_.At(0).record);
  for (int64_t i = 0; i < tries; ++i) {
    const int64_t record = (first + i) % maker_->record_count();
    try {
      sample_shape_ = maker_->DataShape(record, scratch);
      return;
    } catch (const Error& e) {
      if (i + 1 == tries || !IsRecordFault(e)) {
        throw Error(e.kind(), StrCat(maker_->NameOf(record), ": ", e.text()));
      }
    }
  }
}

void PrefetchPipeline::Work(const std::stop_token& stop) {
  LeaveTeamCpus();
  SampleScratch scratch;
  Part part;
  while (Claim(stop, part)) {
    Fill(part, scratch);
    const std::scoped_lock lock(mutex_);
    ++part.slot->parts_done;
    --busy_;
    if (part.slot->parts_done == parts_a_batch_ || (paused_ && busy_ == 0)) ready_.notify_one();
  }
}

bool PrefetchPipeline::Claim(const std::stop_token& stop, Part& part) {
  std::unique_lock lock(mutex_);
  const auto ring = static_cast<int64_t>(slots_.size());
  const bool may = space_.wait(lock, stop, [&] { return !paused_ && next_part_ / parts_a_batch_ < consumed_ + ring; });
  if (!may || stop.stop_requested()) return false;
  const int64_t batch = next_part_ / parts_a_batch_;
  part.slot = &slots_[static_cast<size_t>(batch % ring)];
  part.first_sample = first_sample_ + batch * options_.batch_size;
  part.begin = next_part_ % parts_a_batch_ * kPart;
  part.end = std::min(part.begin + kPart, options_.batch_size);
  ++next_part_;
  ++busy_;
  return true;
}

// A fault is kept with the slot; of several the one with the lowest sample wins, so it does not depend on timing.
void PrefetchPipeline::Fill(const Part& part, SampleScratch& scratch) {
  const ScopedSpan span("load", "data");
  const int64_t count = sample_shape_.Count();
  const int64_t width = label_width_;
  int64_t bad = 0;
  for (int64_t i = part.begin; i < part.end; ++i) {
    try {
      const std::span<float> out(FloatsOf(part.slot->data) + i * count, static_cast<size_t>(count));
      const std::span<float> label(FloatsOf(part.slot->labels) + i * width, static_cast<size_t>(width));
      if (!FillSample(part.first_sample + i, i, scratch, out, label)) ++bad;
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!part.slot->error || i < part.slot->error_sample) {
        part.slot->error = std::current_exception();
        part.slot->error_sample = i;
      }
      return;
    }
  }
  if (bad == 0) return;
  const std::scoped_lock lock(mutex_);
  part.slot->bad_records += bad;
}

// Returns whether the sample's own record was good. A bad one is replaced by the next good record of the source, which
// is the same one in every run and on every thread.
bool PrefetchPipeline::FillSample(int64_t n, int64_t item, SampleScratch& scratch, std::span<float> out,
                                  std::span<float> label) {
  const SampleId id = sampler_.At(n);
  for (int64_t i = 0; i < maker_->record_count(); ++i) {
    const int64_t record = (static_cast<int64_t>(id.record) + i) % maker_->record_count();
    try {
      maker_->Make(record, id, item, sample_shape_, scratch, out, label);
      return i == 0;
    } catch (const Error& e) {
      const bool stops = options_.on_bad_record == PrefetchOptions::OnBadRecord::kStop || !IsRecordFault(e);
      if (stops) throw Error(e.kind(), {}, StrCat(maker_->NameOf(record), ": ", e.text()), e.hint());
      ReportSkipped(record, e);
    }
  }
  throw Error(ErrorKind::kBadData, StrCat("all ", maker_->record_count(), " records are bad; the last was ",
                                          maker_->NameOf(static_cast<int64_t>(id.record))));
}

void PrefetchPipeline::ReportSkipped(int64_t record, const Error& error) {
  {
    const std::scoped_lock lock(mutex_);
    if (!reported_.insert(record).second) return;
  }
  LogWarning(StrCat("skipped ", maker_->NameOf(record), ": ", error.text()));
}

void PrefetchPipeline::Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<size_t>(consumed_ % static_cast<int64_t>(slots_.size()))];
  if (slot.parts_done < parts_a_batch_) {
    const int64_t begin = NowMicros();
    ready_.wait(lock, [&] { return slot.parts_done == parts_a_batch_; });
    statistics.wait_micros += NowMicros() - begin;
  }
  if (slot.error) std::rethrow_exception(slot.error);
  // Workers leave a full slot alone until consumed_ moves on, so the copy needs no lock.
  lock.unlock();
  CopyBatch(slot, tops);
  lock.lock();
  statistics.bad_records += slot.bad_records;
  slot.bad_records = 0;
  slot.parts_done = 0;
  ++consumed_;
  lock.unlock();
  space_.notify_all();
}

void PrefetchPipeline::CopyBatch(const Slot& slot, std::span<const Tensor> tops) const {
  const int64_t count = sample_shape_.Count();
  const float* labels = FloatsOf(slot.labels);
  if (options_.mixer) {
    const MixPlan plan = options_.mixer->PlanOf(position(), options_.batch_size, sample_shape_);
    const auto samples = static_cast<size_t>(options_.batch_size);
    Mixer::MixData(plan, types_[0].shape, {FloatsOf(slot.data), samples * static_cast<size_t>(count)},
                   tops[0].as<float>());
    options_.mixer->MixLabels(plan, {labels, samples}, tops[1].as<float>());
    return;
  }
  CopyParts(FloatsOf(slot.data), count, count, tops[0].as<float>().data());
  for (size_t top = 1; top < tops.size(); ++top) {
    const int64_t size = label_sizes_[top - 1];
    CopyParts(labels, label_width_, size, tops[top].as<float>().data());
    labels += size;
  }
}

void PrefetchPipeline::CopyParts(const float* from, int64_t stride, int64_t size, float* to) const {
  const int64_t steps = maker_->steps();
  const int64_t batch = options_.batch_size;
  if (steps == 1 && stride == size) {
    std::copy_n(from, batch * size, to);
    return;
  }
  const int64_t part = size / steps;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t s = 0; s < steps; ++s) {
      std::copy_n(from + i * stride + s * part, part, to + (s * batch + i) * part);
    }
  }
}

void PrefetchPipeline::Reposition() {
  std::unique_lock lock(mutex_);
  paused_ = true;
  ready_.wait(lock, [&] { return busy_ == 0; });
  for (Slot& slot : slots_) {
    slot.parts_done = 0;
    slot.bad_records = 0;
    slot.error = nullptr;
  }
  first_sample_ = position() / rows_;
  next_part_ = 0;
  consumed_ = 0;
  paused_ = false;
  lock.unlock();
  space_.notify_all();
}

}  // namespace moka

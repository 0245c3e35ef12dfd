// A ring of device buffers between a copying thread and the step. Events order each copy behind the step that read its
// slot last, and each step behind its copy, on the device: neither thread waits for the other's work.
#include "data/pipeline/device_prefetch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/log.h"
#include "core/text.h"
#include "core/threads/team.h"

namespace moka {

DevicePrefetch::DevicePrefetch(std::unique_ptr<Pipeline> pipeline, Stream* step, int64_t slots)
    : pipeline_(std::move(pipeline)), step_(step), position_(pipeline_->position()) {
  Require(slots >= 1, "DevicePrefetch: one slot at the least");
  if (step_ == nullptr) return;
  statistics_ = pipeline_->statistics();
  const Device& device = step_->device();
  lends_ = pipeline_->LendsTo(device);
  copy_ = MakeStream(device);
  stopped_ = MakeEvent(device);
  slots_.resize(static_cast<size_t>(slots));
  for (Slot& slot : slots_) MakeSlot(slot);
  marks_.resize(2 * slots_.size());
  for (Marks& marks : marks_) marks = {MakeEvent(device), MakeEvent(device), MakeEvent(device)};
}

DevicePrefetch::~DevicePrefetch() {
  try {
    Stop();
  } catch (const Error& error) {
    LogWarning(StrCat("while batches ahead were dropped: ", error.what()));
  }
}

void DevicePrefetch::MakeSlot(Slot& slot) {
  for (const TensorType& type : types()) {
    slot.memory.push_back(copy_->Allocate(type.Bytes()));
    slot.tops.emplace_back(type, slot.memory.back().data());
    if (lends_) continue;
    slot.staging.push_back(AllocatePinned(copy_->device(), type.Bytes()));
    slot.staged.emplace_back(type, slot.staging.back().data());
  }
}

void DevicePrefetch::Start() {
  free_ = std::make_unique<BoundedQueue<int64_t>>(slots_.size());
  ahead_ = std::make_unique<BoundedQueue<int64_t>>(slots_.size());
  for (int64_t batch = 0; batch < slot_count(); ++batch) free_->Push(int64_t{batch});
  is_stopping_ = false;
  thread_ = std::jthread([this] { FillSlots(); });
}

void DevicePrefetch::Stop() {
  if (!thread_.joinable()) return;
  is_stopping_ = true;
  free_->Close();
  thread_.join();
  held_.reset();
  error_ = nullptr;
  copy_->Synchronize();  // nothing reads what the pipeline lent
  step_->Record(*stopped_);
  copy_->WaitFor(*stopped_);
}

std::span<const Tensor> DevicePrefetch::Next() {
  if (step_ == nullptr) return pipeline_->NextInPlace();
  if (!thread_.joinable()) Start();
  if (held_) {
    step_->Record(*MarksOf(*held_).consumed);
    free_->Push(*held_ + slot_count());
    held_.reset();
  }
  const std::optional<int64_t> batch = ahead_->Pop();
  if (!batch) {
    const std::exception_ptr error = error_;
    Stop();
    std::rethrow_exception(error);
  }
  const Slot& slot = SlotOf(*batch);
  step_->WaitFor(*MarksOf(*batch).copied);
  held_ = batch;
  position_ = slot.position;
  statistics_ = slot.statistics;
  return slot.tops;
}

void DevicePrefetch::Seek(int64_t sample) {
  Stop();
  pipeline_->Seek(sample);
  position_ = sample;
}

PipelineStatistics DevicePrefetch::statistics() const {
  if (step_ == nullptr) return pipeline_->statistics();
  PipelineStatistics statistics = statistics_;
  statistics.wait_micros = wait_micros_.value();
  statistics.copy_micros = copy_micros_.value();
  return statistics;
}

void DevicePrefetch::FillSlots() {
  LeaveTeamCpus();
  try {
    for (;;) {
      const std::optional<int64_t> batch = free_->Pop();
      if (!batch || is_stopping_) break;
      Fill(*batch);
      ahead_->Push(int64_t{*batch});
    }
  } catch (...) {
    error_ = std::current_exception();
  }
  ahead_->Close();
}

void DevicePrefetch::Fill(int64_t batch) {
  const int64_t slots = slot_count();
  // The last copy from the memory that is written now, or goes back to the pipeline.
  const int64_t read_by = batch - (lends_ ? 1 : slots);
  if (read_by >= 0) MarksOf(read_by).copied->Wait();
  // It is done, so is the copy of batch - slots, and so is the step that this one waited for: batch - 2 x slots.
  if (batch >= 2 * slots) CountTimes(batch + 1 - 2 * slots);

  Slot& slot = SlotOf(batch);
  if (!lends_) pipeline_->Next(slot.staged);
  const std::span<const Tensor> from = lends_ ? pipeline_->NextInPlace() : slot.staged;
  slot.position = pipeline_->position();
  slot.statistics = pipeline_->statistics();

  const Marks& marks = MarksOf(batch);
  if (batch >= slots) copy_->WaitFor(*MarksOf(batch - slots).consumed);
  copy_->Record(*marks.begun);
  for (size_t top = 0; top < from.size(); ++top) {
    copy_->CopyToDevice(slot.memory[top].data(), static_cast<const std::byte*>(from[top].raw()),
                        slot.memory[top].bytes());
  }
  copy_->Record(*marks.copied);
}

// Requires: batch >= 1; its copy and the step before it are done.
void DevicePrefetch::CountTimes(int64_t batch) {
  constexpr double kMicros = 1000;  // a millisecond
  const Event& copied = *MarksOf(batch).copied;
  const double copy_ms = copied.MillisSince(*MarksOf(batch).begun);
  const double wait_ms = copied.MillisSince(*MarksOf(batch - 1).consumed);
  copy_micros_.Add(std::llround(copy_ms * kMicros));
  wait_micros_.Add(std::llround(std::max(wait_ms, 0.0) * kMicros));
}

}  // namespace moka

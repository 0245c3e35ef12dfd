// Batches are cut into parts that go through a bounded queue: workers fill parts in any order, and Next hands a batch
// out once all of its parts are there. Positions fix each sample's content, so the number of workers changes nothing
// but time.
#include "data/pipeline/prefetch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/process_threads.h"
#include "core/threads/team.h"
#include "core/trace.h"

namespace moka {
namespace {

float* FloatsOf(const DeviceBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

// A record may be bad by itself; anything else (memory, our own bugs) is never skipped.
bool IsRecordFault(const Error& error) {
  return error.kind() == ErrorKind::kBadData || error.kind() == ErrorKind::kNoInput ||
         error.kind() == ErrorKind::kNotAllowed || error.kind() == ErrorKind::kIo;
}

}  // namespace

PrefetchPipeline::PrefetchPipeline(std::unique_ptr<const SampleMaker> maker, const SamplerOptions& sampler,
                                   PrefetchOptions options)
    : maker_(std::move(maker)),
      sampler_(sampler),
      options_(std::move(options)),
      process_(getpid()),
      slots_(static_cast<size_t>(options_.batches_ahead + 1)) {
  top_names_ = options_.top_names;
  FindShape();
  const int64_t batch = options_.batch_size;
  types_.push_back({DType::kFloat32, maker_->DataTop(batch, sample_shape_), {}});
  rows_ = maker_->RowsOf(sample_shape_);
  batch_size_ = batch * rows_;
  const std::vector<Shape> labels = maker_->LabelShapes(batch, sample_shape_);
  Require(top_names_.size() <= labels.size() + 1, "PrefetchPipeline: the maker fills every top");
  for (const Shape& label : labels) {
    label_sizes_.push_back(label.Count() / batch);
    label_width_ += label_sizes_.back();
    if (types_.size() < top_names_.size()) types_.push_back({DType::kFloat32, label, {}});
  }
  if (options_.mixer) types_.at(1).shape = {batch, options_.mixer->classes()};
  MakeSlots();
  tallies_.reserve(static_cast<size_t>(options_.workers.most()));
  workers_.reserve(static_cast<size_t>(options_.workers.most()));
}

PrefetchPipeline::~PrefetchPipeline() {
  abandoned_ = true;
  parts_->Close();
  working_ = options_.workers.most();
  working_.notify_all();
}

void PrefetchPipeline::MakeSlots() {
  const int64_t batch = options_.batch_size;
  parts_a_batch_ = (batch + kPart - 1) / kPart;
  parts_ = std::make_unique<BoundedQueue<int64_t>>(slots_.size() * static_cast<size_t>(parts_a_batch_));
  for (Slot& slot : slots_) {
    slot.data = AllocatePinned(options_.device, types_[0].Bytes());
    slot.labels = AllocatePinned(options_.device, (Size(batch) * label_width_ * 4).value());
  }
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
        throw Error(e.kind(), {}, StrCat(maker_->NameOf(record), ": ", e.text()), e.hint());
      }
    }
  }
}

// Workers come first: where the system gives none, nothing is scheduled and the next call tries again.
void PrefetchPipeline::Begin() {
  StartWorkers();
  ScheduleAll();
}

void PrefetchPipeline::ScheduleAll() {
  for (size_t i = 0; i < slots_.size(); ++i) Schedule(static_cast<int64_t>(i));
}

// As many as take part now; those that no longer do sleep.
void PrefetchPipeline::StartWorkers() {
  while (static_cast<int64_t>(workers_.size()) < options_.workers.threads()) {
    tallies_.push_back(std::make_unique<WorkerTallies>());
    const auto index = static_cast<int64_t>(workers_.size());
    try {
      workers_.emplace_back([this, index, tallies = tallies_.back().get()] { Work(index, *tallies); });
    } catch (const std::system_error& error) {
      if (workers_.empty()) throw NoThread(0, static_cast<int>(options_.workers.threads()), error);
      break;  // the system gives no more threads: those there are do the work
    }
  }
  working_ = options_.workers.threads();
  working_.notify_all();
}

void PrefetchPipeline::Work(int64_t index, WorkerTallies& tallies) {
  LeaveTeamCpus();
  SampleScratch scratch;
  for (;;) {
    for (int64_t working = working_; working <= index; working = working_) working_.wait(working);
    const int64_t begin = NowNanos();
    const std::optional<int64_t> part = parts_->Pop();
    if (!part) return;
    tallies.idle_nanos.Add(NowNanos() - begin);
    if (!abandoned_) Make(*part, scratch, tallies);
    CountPart(SlotOf(*part / parts_a_batch_));
  }
}

// A fault is kept with the slot; of several the one with the lowest sample wins, so it does not depend on timing.
void PrefetchPipeline::Make(int64_t part, SampleScratch& scratch, WorkerTallies& tallies) {
  const ScopedSpan span("load", "data");
  const int64_t started = NowNanos();
  Slot& slot = SlotOf(part / parts_a_batch_);
  const int64_t count = sample_shape_.Count();
  const int64_t width = label_width_;
  const int64_t first = first_sample_ + part / parts_a_batch_ * options_.batch_size;
  const int64_t begin = part % parts_a_batch_ * kPart;
  const int64_t end = std::min(begin + kPart, options_.batch_size);
  if (maker_->reads_ahead()) ReadAhead(part + parts_a_batch_ * static_cast<int64_t>(slots_.size()));
  int64_t bad = 0;
  scratch.record.clock.Start();
  for (int64_t i = begin; i < end; ++i) {
    try {
      const std::span<float> out(FloatsOf(slot.data) + i * count, static_cast<size_t>(count));
      const std::span<float> label(FloatsOf(slot.labels) + i * width, static_cast<size_t>(width));
      if (!FillSample(first + i, i, scratch, out, label)) ++bad;
    } catch (...) {
      KeepError(slot, i);
      break;
    }
    if (i == begin) scratch.record.clock.Stop(tallies);
  }
  try {
    maker_->CheckFile();
  } catch (const Error&) {
    KeepError(slot, begin);
  }
  scratch.record.clock.Stop(tallies);
  if (bad > 0) slot.bad_records += bad;
  tallies.samples.Add(end - begin);
  tallies.cached.Add(std::exchange(scratch.record.cached, 0));
  tallies.make_nanos.Add(NowNanos() - started);
}

void PrefetchPipeline::KeepError(Slot& slot, int64_t sample) {
  const std::scoped_lock lock(faults_);
  if (slot.error && slot.error_sample <= sample) return;
  slot.error = std::current_exception();
  slot.error_sample = sample;
}

// The order is known: the pages of the part that comes a whole ring later are asked for now.
void PrefetchPipeline::ReadAhead(int64_t part) const {
  const int64_t first = first_sample_ + part / parts_a_batch_ * options_.batch_size;
  const int64_t begin = part % parts_a_batch_ * kPart;
  const int64_t end = std::min(begin + kPart, options_.batch_size);
  for (int64_t i = begin; i < end; ++i) maker_->WillNeed(static_cast<int64_t>(sampler_.At(first + i).record));
}

void PrefetchPipeline::CountPart(Slot& slot) {
  // Each worker's part is seen by whoever counts the last one.
  if (slot.parts_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  slot.is_full = 1;
  slot.is_full.notify_one();
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
      const ImageLosses losses = scratch.record.decoder.TakeLosses();
      if (losses.any()) TellLosses(losses, maker_->NameOf(record));
      return i == 0;
    } catch (const Error& e) {
      maker_->CheckFile();  // a file that is gone is no bad record
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
    const std::scoped_lock lock(faults_);
    if (!reported_.insert(record).second) return;
  }
  LogWarning(StrCat("skipped ", maker_->NameOf(record), ": ", error.text()));
}

void PrefetchPipeline::Schedule(int64_t batch) {
  Slot& slot = SlotOf(batch);
  slot.batch = batch;
  slot.bad_records = 0;
  slot.error = nullptr;
  slot.is_full = 0;
  slot.parts_left = parts_a_batch_;
  // There is always room: the queue holds the parts of all slots.
  for (int64_t i = 0; i < parts_a_batch_; ++i) parts_->TryPush(batch * parts_a_batch_ + i);
}

PrefetchPipeline::Slot& PrefetchPipeline::Await(PipelineStatistics& statistics) {
  if (getpid() != process_) {
    throw Error(ErrorKind::kUnavailable, {},
                "a forked process has no threads that read the records of its parent's net",
                "make the net in the process that runs it, or start processes with multiprocessing's \"spawn\"");
  }
  if (workers_.empty()) Begin();
  if (is_lent_) Release();
  Slot& slot = SlotOf(consumed_);
  waited_ = 0;
  if (slot.is_full == 0) {
    const int64_t begin = NowMicros();
    slot.is_full.wait(0);
    waited_ = NowMicros() - begin;
    statistics.wait_micros += waited_;
  }
  if (slot.error) std::rethrow_exception(slot.error);
  return slot;
}

void PrefetchPipeline::Release() {
  is_lent_ = false;
  Tune(waited_);
  Schedule(consumed_ + static_cast<int64_t>(slots_.size()));
  ++consumed_;
}

void PrefetchPipeline::Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) {
  const Slot& slot = Await(statistics);
  CopyBatch(slot, tops);
  statistics.bad_records += slot.bad_records;
  Release();
}

bool PrefetchPipeline::CanLend() const {
  const bool is_whole = types_.size() < 2 || (types_.size() == 2 && label_sizes_[0] == label_width_);
  bool has_steps = false;
  for (size_t top = 0; top < types_.size(); ++top) has_steps = has_steps || maker_->StepsOf(top) > 1;
  return !options_.mixer && !has_steps && is_whole;
}

std::span<const Tensor> PrefetchPipeline::Lend(PipelineStatistics& statistics) {
  if (!CanLend()) return {};
  const Slot& slot = Await(statistics);
  lent_ = {Tensor(types_[0], slot.data.data())};
  if (types_.size() > 1) lent_.emplace_back(types_[1], slot.labels.data());
  statistics.bad_records += slot.bad_records;
  is_lent_ = true;
  return lent_;
}

void PrefetchPipeline::Tune(int64_t wait_micros) {
  const int64_t now = NowMicros();
  // Batches are made in order: all are full if the slot freed last is.
  const bool all_full = consumed_ > 0 && SlotOf(consumed_ - 1).is_full != 0;
  const int64_t since = delivered_at_ > 0 ? now - delivered_at_ : wait_micros;
  delivered_at_ = now;
  if (options_.workers.Observe(wait_micros, since, all_full)) StartWorkers();
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
  CopyParts(FloatsOf(slot.data), count, count, maker_->StepsOf(0), tops[0].as<float>().data());
  for (size_t top = 1; top < tops.size(); ++top) {
    const int64_t size = label_sizes_[top - 1];
    CopyParts(labels, label_width_, size, maker_->StepsOf(top), tops[top].as<float>().data());
    labels += size;
  }
}

void PrefetchPipeline::CopyParts(const float* from, int64_t stride, int64_t size, int64_t steps, float* to) const {
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
  if (workers_.empty()) {  // nothing has been read yet
    first_sample_ = position() / rows_;
    return;
  }
  is_lent_ = false;
  abandoned_ = true;
  while (const std::optional<int64_t> part = parts_->TryPop()) {
    CountPart(SlotOf(*part / parts_a_batch_));
  }
  for (Slot& slot : slots_) slot.is_full.wait(0);  // parts that workers have
  abandoned_ = false;
  first_sample_ = position() / rows_;
  consumed_ = 0;
  ScheduleAll();
}

void PrefetchPipeline::Collect(PipelineStatistics& statistics) const {
  constexpr int64_t kNanos = 1000;
  std::array<int64_t, kStages> seen{};
  int64_t make = 0;
  for (const auto& tallies : tallies_) {
    for (size_t i = 0; i < kStages; ++i) seen[i] += tallies->seen_nanos[i].value();
    make += tallies->make_nanos.value();
    statistics.idle_micros += tallies->idle_nanos.value() / kNanos;
    statistics.made_samples += tallies->samples.value();
    statistics.cached_samples += tallies->cached.value();
  }
  // The samples looked at stand for all.
  const auto all_seen = static_cast<double>(std::max<int64_t>(seen[0] + seen[1] + seen[2], 1));
  const int64_t make_micros = make / kNanos;
  const auto part = [&](Stage stage) {
    const auto stage_seen = static_cast<double>(seen[static_cast<size_t>(stage)]);
    return static_cast<int64_t>(static_cast<double>(make_micros) * stage_seen / all_seen);
  };
  statistics.read_micros = part(Stage::kRead);
  statistics.decode_micros = part(Stage::kDecode);
  statistics.transform_micros = part(Stage::kTransform);
  statistics.threads = options_.workers.threads();
  statistics.most_threads = options_.workers.most();
  statistics.is_tuned = options_.workers.is_tuned();
  statistics.cache_bytes = maker_->cache_bytes();
  statistics.can_cache = maker_->can_cache();
}

}  // namespace moka

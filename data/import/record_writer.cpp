// Workers take items from one queue and finish in any order; the writer puts them back in order, in commits of some
// MiB, and notes what was bad.
#include "data/import/record_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>

#include "core/checksum.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "core/threads/process_threads.h"
#include "data/records/datum_view.h"
#include "data/records/sample_record.h"
#include "proto/text/text_format.h"

namespace moka {
namespace {

constexpr const char* kSkipped = "skipped";
constexpr const char* kWarning = "warning";

constexpr size_t kItemsPerJob = 8;
// Jobs ahead of the writer, at most: enough to stay busy while a batch goes to disk.
constexpr size_t kJobsPerWorker = 32;
constexpr int64_t kMadeBytes = int64_t{128} << 20U;
// Bytes of the source that items under way hold: members of archives, which are read in order.
constexpr int64_t kHeldBytes = int64_t{64} << 20U;
constexpr int64_t kHeldBytesOfJob = kHeldBytes / 16;

const char* NameOf(ImportOptions::Storage storage) {
  switch (storage) {
    case ImportOptions::Storage::kRaw: return "raw";
    case ImportOptions::Storage::kJpeg: return "jpeg";
    case ImportOptions::Storage::kPng: return "png";
    case ImportOptions::Storage::kSource: break;
  }
  return "source";
}

const char* NameOf(ImageChannels channels) {
  switch (channels) {
    case ImageChannels::kColor: return "color";
    case ImageChannels::kGray: return "gray";
    case ImageChannels::kAsStored: break;
  }
  return "as stored";
}

// Returns the records of one commit. A commit costs some 8 ms of waiting for a disk, and what was made since the last
// one is lost when an import is cut: small pictures come by the ten thousand a second, large ones take longer than
// their records are long.
int64_t BatchRecords(const ImportSource& source, const ImportOptions& options) {
  constexpr int64_t kMost = 16384;
  constexpr int64_t kLeast = 256;
  constexpr int64_t kSourceBytes = int64_t{32} << 20U;
  if (options.batch_records > 0) return options.batch_records;
  if (source.bytes == 0) return kMost;
  return std::clamp(kSourceBytes / std::max<int64_t>(1, source.bytes / source.items), kLeast, kMost);
}

// Whatever decides the records and the file's bytes; neither the workers nor what becomes of bad files do.
std::string IdentityOf(const ImportSource& source, const ImportOptions& options) {
  nlohmann::json json = {{"format", "moka-import"},
                         {"version", 1},
                         {"source", source.text},
                         {"items", source.items},
                         {"items_crc32c", source.crc32c},
                         {"storage", NameOf(options.storage)},
                         {"channels", NameOf(options.channels)},
                         {"height", options.height},
                         {"width", options.width},
                         {"limit", options.limit},
                         {"batch", BatchRecords(source, options)}};
  json["shuffle"] = options.shuffle_seed ? nlohmann::json(*options.shuffle_seed) : nlohmann::json();
  if (HasSides(options)) json["sides"] = {options.min_dim, options.max_dim};
  if (options.short_side > 0) json["sides"].push_back(options.short_side);
  if (options.stores_like_caffe) json["stores_like_caffe"] = true;
  if (!options.chosen.empty()) {
    std::string marks(options.chosen.size(), '-');
    for (size_t i = 0; i < marks.size(); ++i) marks[i] = options.chosen[i] ? '+' : '-';
    json["chosen"] = {std::ranges::count(marks, '+'), Crc32c(marks)};
  }
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The records if all items are good; 0: not known.
int64_t RecordsOf(const ImportSource& source, const ImportOptions& options) {
  const int64_t chosen =
      options.chosen.empty() ? source.items : static_cast<int64_t>(std::ranges::count(options.chosen, true));
  return options.limit > 0 && chosen > 0 ? std::min(chosen, options.limit) : chosen;
}

// Bytes that the records will have, 0 where that is not known.
int64_t ExpectedBytes(const ImportSource& source, const ImportOptions& options) {
  using Storage = ImportOptions::Storage;
  const int64_t records = RecordsOf(source, options);
  const int64_t channels = options.channels == ImageChannels::kGray ? 1 : source.channels;
  const bool has_size = options.height > 0 && !HasSides(options);
  if (has_size && options.storage == Storage::kRaw) return records * channels * options.height * options.width;
  const bool is_kept =
      !has_size && !HasSides(options) && options.storage == Storage::kSource && records == source.items;
  return is_kept ? source.bytes : 0;
}

LmdbWriter::Options WriterOptions(const ImportSource& source, const ImportOptions& options, ImportReport& report,
                                  std::set<int32_t>& labels) {
  CheckSizes(options);
  LmdbWriter::Options made;
  made.identity = IdentityOf(source, options);
  made.restart = options.unfinished == ImportOptions::Unfinished::kRestart;
  made.batch_records = BatchRecords(source, options);
  made.expected_bytes = ExpectedBytes(source, options);
  made.on_kept = [&report, &labels, kind = source.kind](std::string_view /*key*/, std::string_view value) {
    if (kind == RecordKind::kDatum) labels.insert(ParseDatum(value).label);
    if (kind != RecordKind::kSample) report.shapes.insert(ShapeOfRecord(value, kind));
  };
  return made;
}

// Whether a message has the name, alone or at the end of a path.
bool IsNamed(const std::string& text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || std::string_view("/ \"").find(text[at - 1]) != std::string_view::npos;
    const bool ends = end == text.size() || std::string_view(": \",").find(text[end]) != std::string_view::npos;
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

RecordWriter::RecordWriter(const std::filesystem::path& out, const ImportOptions& options, const ImportSource& source)
    : options_(options), total_(RecordsOf(source, options)) {
  if (!options.chosen.empty() && std::ssize(options.chosen) != source.items) {
    throw Error(ErrorKind::kBadData, StrCat(source.text, ": it has ", source.items, " items now, and had ",
                                            options.chosen.size(), " when its parts were chosen"));
  }
  if (options.visitor == nullptr) {
    writer_.emplace(out, WriterOptions(source, options, report_, labels_met_));
    report_.resumed_at = kept_items_ = writer_->entries();
    for (const LmdbWriter::Note& note : writer_->kept_notes()) {
      const bool is_bad = note.kind == kSkipped;
      (is_bad ? report_.skipped : report_.warnings).push_back(note.text);
      if (is_bad) ++kept_items_;
    }
  }
  if (options_.on_bad_record == ImportOptions::OnBadRecord::kStop && !report_.skipped.empty()) {
    throw Error(ErrorKind::kBadData, {}, report_.skipped.front(), "it was skipped before; say so again to go on");
  }
  UseOneOpenCvThread();
  const int workers = options.workers > 0 ? static_cast<int>(options.workers) : ThreadCount();
  for (int i = 0; i < workers; ++i) {
    try {
      workers_.emplace_back([this] { Work(); });
    } catch (const std::system_error& error) {
      if (workers_.empty()) throw NoThread(i, workers, error);
      break;  // the system gives no more threads: those there are do the work
    }
  }
}

RecordWriter::~RecordWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_workers_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void RecordWriter::Work() {
  RecordMaker maker(options_);
  std::optional<RecordViewer> viewer;
  if (options_.visitor != nullptr) viewer.emplace(*options_.visitor, viewing_memory_);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_workers_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (is_ending_) return;
    Job* job = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    for (const ImportItem& item : job->items) {
      job->made.push_back(viewer ? viewer->View(item) : maker.Make(item));
      job->made_bytes += static_cast<int64_t>(job->made.back().wire.size());
    }
    lock.lock();
    made_bytes_ += job->made_bytes;
    job->is_made = true;
    if (job == jobs_.front().get()) wake_writer_.notify_one();
  }
}

bool RecordWriter::full() {
  if (options_.limit == 0) return false;
  // The items under way may be bad ones: only what is written counts.
  while (under_way_ > 0 && done() + under_way_ >= options_.limit) {
    HandOver();
    WriteFirst();
  }
  return done() >= options_.limit;
}

bool RecordWriter::SkipKept() {
  const bool is_chosen = options_.chosen.empty() || options_.chosen.at(static_cast<size_t>(added_));
  if (is_chosen && kept_items_ == 0) return false;
  if (is_chosen) --kept_items_;
  ++added_;
  CheckStop();
  return true;
}

void RecordWriter::Add(ImportItem item) {
  if (SkipKept()) return;
  CheckStop();
  item.index = added_++;
  held_bytes_ += item.held_bytes;
  next_->held_bytes += item.held_bytes;
  next_->items.push_back(std::move(item));
  ++under_way_;
  if (next_->items.size() < kItemsPerJob && next_->held_bytes < kHeldBytesOfJob) return;
  HandOver();
  while (IsAhead()) WriteFirst();
}

bool RecordWriter::IsAhead() {
  if (held_bytes_ > kHeldBytes) return true;
  const std::lock_guard lock(mutex_);
  return jobs_.size() > kJobsPerWorker * workers_.size() || made_bytes_ > kMadeBytes;
}

void RecordWriter::HandOver() {
  if (next_->items.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(next_.get());
    jobs_.push_back(std::move(next_));
  }
  wake_workers_.notify_one();
  next_ = std::make_unique<Job>();
}

void RecordWriter::WriteFirst() {
  std::unique_ptr<Job> job;
  {
    std::unique_lock lock(mutex_);
    wake_writer_.wait(lock, [this] { return jobs_.front()->is_made; });
    job = std::move(jobs_.front());
    jobs_.pop_front();
    made_bytes_ -= job->made_bytes;
  }
  held_bytes_ -= job->held_bytes;
  for (size_t i = 0; i < job->items.size(); ++i) Write(job->items[i], job->made[i]);
}

void RecordWriter::Write(const ImportItem& item, MadeRecord& made) {
  CheckStop();
  --under_way_;
  if (made.failed) std::rethrow_exception(made.failed);
  if (!writer_) {
    ++viewed_;
    TellProgress();
    return;
  }
  for (RecordWarning& warning : made.warnings) {
    writer_->AddNote(kWarning, warning.text);
    report_.warnings.push_back(std::move(warning.text));
  }
  if (made.bad) {
    AddBad(item.place.empty() ? item.name : item.place, *made.bad);
    return;
  }
  for (size_t i = 0; i < kImageLosses; ++i) {
    if (made.losses.test(i)) in_part_.Add(std::string(TextOf(static_cast<ImageLoss>(i))), item.name);
  }
  if (item.kind == RecordKind::kDatum && !item.describe && !item.describe_sample) labels_met_.insert(item.label);
  if (!made.shape.empty()) report_.shapes.insert(std::move(made.shape));
  writer_->Put(LmdbKey(writer_->entries(), item.name), made.wire);
  TellProgress();
}

void RecordWriter::TellProgress() const {
  constexpr int64_t kProgressStep = 256;
  if (options_.progress && (done() % kProgressStep == 0 || done() == total_)) options_.progress(done(), total_);
}

void RecordWriter::AddBad(std::string_view name, const Error& error) {
  if (options_.on_bad_record == ImportOptions::OnBadRecord::kStop) {
    throw Error(error.kind(), {}, NamedFault(name, error), error.hint());
  }
  report_.skipped.push_back(StrCat(name, ": ", error.text()));
  writer_->AddNote(kSkipped, report_.skipped.back());
}

void RecordWriter::CheckStop() const {
  if (!options_.wants_stop || !options_.wants_stop()) return;
  const int64_t kept = writer_ ? writer_->committed() : 0;
  throw Error(ErrorKind::kInterrupted, {},
              StrCat("interrupted after ", done(), total_ > 0 ? StrCat(" of ", total_) : "", " records"),
              kept > 0 ? StrCat("the same command goes on after the ", kept, " records that are on disk")
                       : "none was on disk yet: the same command begins anew");
}

void RecordWriter::WriteAll() {
  HandOver();
  while (under_way_ > 0) WriteFirst();
  report_.records = done();
  if (!writer_) return;
  if (done() == 0) {
    throw Error(ErrorKind::kBadData,
                StrCat("nothing to import: ", report_.skipped.size(), " files were bad, none was good",
                       report_.skipped.empty() ? "" : StrCat("; the first is ", report_.skipped.front())));
  }
  const auto has_channels = [&](std::string_view channels) {
    return std::ranges::any_of(report_.shapes, [&](const std::string& shape) { return shape.starts_with(channels); });
  };
  if (has_channels("1x") && has_channels("3x")) {
    report_.warnings.emplace_back(
        "grey pictures are among coloured ones: a layer reads them as three equal channels, unless its "
        "transform_param has force_gray");
  }
  for (std::string& sentence : in_part_.Sentences("read in part")) report_.warnings.push_back(std::move(sentence));
}

void RecordWriter::CountClasses() {
  if (report_.labels.empty() || labels_met_.empty()) return;
  LeftOut without;
  int64_t met = 0;
  for (size_t i = 0; i < report_.labels.size(); ++i) {
    const bool is_met = labels_met_.contains(static_cast<int32_t>(i));
    if (is_met) ++met;
    if (!is_met) without.Add("classes", report_.labels[i]);
  }
  report_.classes_met = met;
  for (const std::string& sentence : without.Sentences("without records")) {
    report_.warnings.push_back(StrCat(met, " of ", report_.labels.size(), " classes have records; ", sentence));
  }
}

ImportReport RecordWriter::Finish(std::vector<std::string> labels) {
  WriteAll();
  report_.labels = std::move(labels);
  if (!writer_) return std::move(report_);
  CountClasses();
  if (!report_.labels.empty()) writer_->PutFile("labels.txt", Join(report_.labels, "\n") + "\n");
  writer_->Finish();
  return std::move(report_);
}

ImportReport RecordWriter::FinishSamples(const SampleSchema& schema) {
  WriteAll();
  const auto& names = schema.box_class_size() > 0    ? schema.box_class()
                      : schema.mask_class_size() > 0 ? schema.mask_class()
                      : schema.label_size() > 0      ? schema.label(0).class_name()
                                                     : schema.box_class();
  report_.labels.assign(names.begin(), names.end());
  if (!writer_) {
    options_.visitor->TakeSchema(schema);
    return std::move(report_);
  }
  writer_->PutFile(kSchemaFile, ToText(schema));
  writer_->Finish();
  return std::move(report_);
}

std::string NamedFault(std::string_view name, const Error& error) {
  return IsNamed(error.text(), name) ? error.text() : StrCat(name, ": ", error.text());
}

void CheckImportStop(const ImportOptions& options) {
  if (!options.wants_stop || !options.wants_stop()) return;
  throw Error(ErrorKind::kInterrupted, "interrupted while looking through the source");
}

uint32_t ChecksumOf(const std::vector<ListedImage>& images) {
  uint32_t crc = 0;
  for (const ListedImage& image : images) crc = Crc32c(StrCat(image.path, "\t", image.label, "\n"), crc);
  return crc;
}

std::vector<int64_t> ImportOrder(int64_t count, const ImportOptions& options) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (options.shuffle_seed && count > 0) {
    const Permutation permutation(static_cast<uint64_t>(count), *options.shuffle_seed, StableHash("import"));
    for (int64_t& i : order) i = static_cast<int64_t>(permutation(static_cast<uint64_t>(i)));
  }
  if (options.limit > 0 && options.limit < count) order.resize(static_cast<size_t>(options.limit));
  return order;
}

}  // namespace moka

// The part that all image importers share: workers that make records, their writing in order, resuming, bad files,
// progress.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "data/files/left_out.h"
#include "data/import/import.h"
#include "data/import/record_maker.h"
#include "data/import/record_viewer.h"
#include "data/records/lmdb_writer.h"
#include "data/records/record_source.h"

namespace moka {

// The source that an import reads, as far as it decides the records: with the options it is the import's identity.
struct ImportSource {
  std::string text;      // "folder flowers"
  int64_t items = 0;     // pictures, good and bad, before any limit
  uint32_t crc32c = 0;   // of the items' names, labels and sizes in the source's order, or of their bytes
  int64_t bytes = 0;     // of the pictures' files where they are known; 0: not known
  int64_t channels = 3;  // of pixels at most
  RecordKind kind = RecordKind::kDatum;
};

// Items are given in order by one thread, which also writes; workers make the records in between. The bytes written do
// not depend on the number of workers. Where the options have a visitor, workers show it the items and nothing is
// written.
class RecordWriter {
 public:
  // Errors: those of LmdbWriter; kUsage for sizes out of range.
  RecordWriter(const std::filesystem::path& out, const ImportOptions& options, const ImportSource& source);
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  ~RecordWriter();

  // Whether the options' limit is reached.
  bool full();
  // Whether the next item was dealt with by the import that this one resumes, or is none of the chosen ones; the item
  // then counts as added.
  bool SkipKept();
  // Errors: kBadData naming the item, when it or one before it is bad and the options say stop; kInterrupted when the
  // options' wants_stop says so; those of LmdbWriter.
  void Add(ImportItem item);
  ImportReport Finish(std::vector<std::string> labels);
  // Finishes a database of SampleRecords. The report's labels are the names of the first kind of classes that the
  // schema names.
  ImportReport FinishSamples(const SampleSchema& schema);

 private:
  // Several items, since handing one over costs as much as copying a small picture.
  struct Job {
    std::vector<ImportItem> items;
    std::vector<MadeRecord> made;
    int64_t made_bytes = 0;
    int64_t held_bytes = 0;
    bool is_made = false;
  };
  void Work();
  void HandOver();
  bool IsAhead();
  void TellProgress() const;
  void WriteFirst();
  void Write(const ImportItem& item, MadeRecord& made);
  void AddBad(std::string_view name, const Error& error);
  void CheckStop() const;
  // The records so far, or the items that the visitor was shown.
  int64_t done() const { return writer_ ? writer_->entries() : viewed_; }
  void WriteAll();
  // Counts the classes that records have and warns where that is not all of them.
  void CountClasses();

  ImportOptions options_;
  int64_t total_;
  ImportReport report_;
  std::set<int32_t> labels_met_;      // of Datums
  LeftOut in_part_;                   // what pictures lost on their way to 8-bit pixels
  std::optional<LmdbWriter> writer_;  // none: a visitor looks
  ViewingMemory viewing_memory_;
  int64_t viewed_ = 0;
  int64_t added_ = 0;                                    // items so far, those that were passed over among them
  int64_t held_bytes_ = 0;                               // of items under way
  int64_t kept_items_ = 0;                               // not yet skipped
  int64_t under_way_ = 0;                                // items added and not yet written
  std::unique_ptr<Job> next_ = std::make_unique<Job>();  // being filled
  std::mutex mutex_;
  std::condition_variable wake_workers_;
  std::condition_variable wake_writer_;
  // Guarded by mutex_.
  std::deque<std::unique_ptr<Job>> jobs_;  // in order; the first is written next
  std::deque<Job*> waiting_;               // for a worker
  int64_t made_bytes_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> workers_;
};

// "name: what is wrong", or what is wrong where that says the name.
std::string NamedFault(std::string_view name, const Error& error);
// While a source is looked through. Errors: kInterrupted when the options' wants_stop says so.
void CheckImportStop(const ImportOptions& options);
// Returns a checksum of a list's names and labels, for ImportSource.
uint32_t ChecksumOf(const std::vector<ListedImage>& images);
// 0..count-1 in the options' order, cut to their limit.
std::vector<int64_t> ImportOrder(int64_t count, const ImportOptions& options);

}  // namespace moka

// The part of an import's worker where a visitor looks and nothing is stored: reading, decoding and describing of one
// item after another, within bounds of memory that all workers share.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/import/record_maker.h"
#include "data/import/record_visitor.h"

namespace moka {

// Bytes that threads take together. Who wants more than all of them gets them alone.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : bytes_(bytes) {}
  // Waits until they are free.
  void Take(int64_t bytes);
  void Give(int64_t bytes);

 private:
  const int64_t bytes_;
  std::mutex mutex_;
  std::condition_variable given_;
  int64_t taken_ = 0;  // guarded by mutex_
};

// The memory of pictures under way, in all workers. A thread takes of `files` before it takes of `pixels`, and gives
// back in the other order, so that none waits for another in a circle.
struct ViewingMemory {
  MemoryBudget files{int64_t{96} << 20U};
  MemoryBudget pixels{int64_t{192} << 20U};
};

// One thread.
class RecordViewer {
 public:
  // All must outlive it.
  RecordViewer(RecordVisitor& visitor, ViewingMemory& memory) : visitor_(visitor), memory_(memory) {}
  // Shows the item to the visitor. What is made is empty, unless the visitor failed.
  MadeRecord View(const ImportItem& item);

 private:
  void LookAt(const ImportItem& item);
  void ReadPicture(const ImportItem& item);
  void DecodeFile();
  void ReadRecord(const ImportItem& item);
  void Describe(const ImportItem& item);
  void AddFault(ItemFault::Kind kind, const Error& error) { faults_.push_back({kind, error}); }

  RecordVisitor& visitor_;
  ViewingMemory& memory_;
  RecordScratch scratch_;
  std::string file_;
  Image image_;
  bool has_image_ = false;
  bool is_described_ = false;
  std::optional<int32_t> label_;
  ImageHeader::Format format_ = ImageHeader::Format::kUnknown;
  AnnotatedDatum annotated_;
  SampleRecord sample_;
  RecordWarnings warnings_;
  std::vector<ItemFault> faults_;
};

}  // namespace moka

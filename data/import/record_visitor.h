// Whoever wants to see what an import would make records of, without a database: ImportOptions::visitor. Pictures are
// read and decoded, and their annotations joined to them, as an import does it; what is bad ends nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/image/image.h"
#include "data/import/record_maker.h"

namespace moka {

// A reason why an import refuses an item.
struct ItemFault {
  enum class Kind : uint8_t {
    kMissing,     // there is no such file
    kUnreadable,  // nothing of the picture can be decoded
    kDamaged,     // the picture is decoded in part: it is cut off, or has bad codes
    kMislabeled,  // what is said of the picture cannot be
  } kind = Kind::kUnreadable;
  Error error;
};

// An item and all that is known of it; what it refers to lives as long as the call.
struct SeenItem {
  const ImportItem& item;
  std::string_view file = {};    // empty: none, or it cannot be read
  const Image* image = nullptr;  // null: none of bytes and of one or three channels
  ImageHeader::Format format = ImageHeader::Format::kUnknown;
  ImageLosses losses = {};
  std::optional<int32_t> label = {};          // of the whole picture
  const AnnotatedDatum* annotated = nullptr;  // null: a record of another kind, or one that is mislabelled
  const SampleRecord* sample = nullptr;
  const RecordWarnings& warnings;
  const std::vector<ItemFault>& faults;
};

class RecordVisitor {
 public:
  RecordVisitor() = default;
  RecordVisitor(const RecordVisitor&) = delete;
  RecordVisitor& operator=(const RecordVisitor&) = delete;
  virtual ~RecordVisitor() = default;

  // Whether the item of that index is to be looked at. May be called by any number of threads at once.
  virtual bool Wants(int64_t /*index*/) const { return true; }
  // Called by any number of threads at once, in no order.
  virtual void Visit(const SeenItem& seen) = 0;
  // The schema of SampleRecords, after the last of them.
  virtual void TakeSchema(const SampleSchema& /*schema*/) {}
};

}  // namespace moka

// One source as a check has seen it: a row of facts for each picture, and counts. Pictures are seen by the importer of
// the source, so that what `moka data import` would take or refuse is what is looked at; a database is read as it is.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/image/perceptual_hash.h"
#include "data/import/import_options.h"
#include "data/import/record_visitor.h"

namespace moka {

// The facts that are kept of a picture: some 200 bytes, whatever its size.
struct PictureRow {
  std::string name;
  std::array<uint64_t, 2> content = {};  // a hash of its file, or of its pixels where there is no file
  PerceptualHash look;
  int64_t bytes = 0;  // of its file
  int32_t width = 0;
  int32_t height = 0;
  int32_t label = 0;
  uint8_t channels = 0;     // 0: it is no picture that can be looked at
  uint8_t orientation = 1;  // by EXIF
  bool has_label = false;
  bool is_bad = false;
  bool is_seen = false;  // false: the look ended before it
  ImageHeader::Format format = ImageHeader::Format::kUnknown;
  ImageLosses losses;
};

// A remark on one item.
struct SeenFault {
  int64_t index = 0;
  ItemFault::Kind kind = ItemFault::Kind::kUnreadable;
  std::string text;
};
struct SeenWarning {
  int64_t index = 0;
  RecordWarning warning;
};

struct TargetRange {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
};

// Filled by any number of threads while a source is looked at; read after Finish().
class SourceLook : public RecordVisitor {
 public:
  explicit SourceLook(std::string source);

  void Visit(const SeenItem& seen) override;
  void TakeSchema(const SampleSchema& schema) override { schema_ = schema; }
  // Puts what threads have found into the source's order.
  void Finish(ImportReport report);

  const std::string& source() const { return source_; }
  // By index. Where a look has ended at an error, some before the last one may not have been seen.
  const std::vector<PictureRow>& rows() const { return rows_; }
  const std::vector<SeenFault>& faults() const { return faults_; }
  const std::vector<SeenWarning>& warnings() const { return warnings_; }
  const ImportReport& report() const { return report_; }
  const SampleSchema& schema() const { return schema_; }
  // Counts by label of pictures and of boxes, and of the pixels of masks by value.
  const std::map<int64_t, int64_t>& labels() const { return labels_; }
  const std::map<int64_t, int64_t>& boxes() const { return boxes_; }
  const std::map<int64_t, int64_t>& mask_pixels() const { return mask_pixels_; }
  const std::vector<TargetRange>& targets() const { return targets_; }
  // Where a picture is, as a person finds it: its path, or its name behind the source.
  std::string PlaceOf(int64_t index) const;

 private:
  PictureRow RowOf(const SeenItem& seen) const;
  void Count(const SeenItem& seen, const std::map<int64_t, int64_t>& mask_pixels);

  std::string source_;
  bool is_folder_;  // names are paths below it
  std::mutex mutex_;
  // Guarded by mutex_ until Finish().
  std::vector<PictureRow> rows_;  // by index
  std::vector<SeenFault> faults_;
  std::vector<SeenWarning> warnings_;
  std::map<int64_t, int64_t> labels_;
  std::map<int64_t, int64_t> boxes_;
  std::map<int64_t, int64_t> mask_pixels_;
  std::vector<TargetRange> targets_;
  ImportReport report_;
  SampleSchema schema_;
};

// Shows a source, in the words of `moka data import`, or a database to the options' visitor. Errors: those of Import
// and RecordDatabase, for a source that cannot be looked at as a whole.
ImportReport VisitSource(const std::string& source, const ImportOptions& options);

}  // namespace moka

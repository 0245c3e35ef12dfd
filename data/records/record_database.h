// A database of records of any kind - Datums, SSD's AnnotatedDatums, Moka's own - for those who look at all of it: its
// pictures, their classes and boxes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/record_kind.h"
#include "data/records/annotated_record.h"
#include "data/records/lmdb_file.h"
#include "data/records/record_source.h"
#include "data/records/sample_record.h"

namespace moka {

class RecordDatabase {
 public:
  // Moka's own records have a schema; the others are told apart by the first one. Errors: those of LmdbReader and
  // ReadSampleSchema.
  explicit RecordDatabase(const std::filesystem::path& path,
                          LmdbReader::Access access = LmdbReader::Access::kSequential);

  const LmdbReader& reader() const { return reader_; }
  int64_t size() const { return reader_.size(); }
  RecordKind kind() const { return kind_; }
  // Returns a checksum of keys and sizes, or of the importer's checksums where there are any.
  uint32_t Checksum() const;
  std::string NameOf(int64_t i) const { return reader_.NameOf(i); }

  struct Scratch {
    RecordScratch record;
    AnnotatedRecord annotated;
    SampleRecord sample;
    Image mask;
    InstancePictures instances;
  };
  struct Content {
    PixelView pixels;
    bool is_file = false;  // the picture is an image file
    std::optional<int64_t> label;
    std::vector<int64_t> boxes;  // classes
  };
  // Everything a record holds is decoded. Errors: kBadData.
  Content Load(int64_t i, Scratch& scratch) const;
  // Returns the class of a record without decoding the picture; none where records have no label, or several. Errors:
  // kBadData.
  std::optional<int64_t> ClassOf(int64_t i, Scratch& scratch) const;

  // Names by label, and by class of a box; empty where they are not known.
  const std::vector<std::string>& label_names() const { return label_names_; }
  const std::vector<std::string>& box_names() const { return box_names_; }
  // Returns the schema of Moka's own records.
  const SampleSchema& schema() const { return schema_; }

 private:
  void LoadSample(int64_t i, Scratch& scratch, Content& content) const;

  LmdbReader reader_;
  RecordKind kind_ = RecordKind::kDatum;
  SampleSchema schema_;
  std::vector<std::string> label_names_;
  std::vector<std::string> box_names_;
};

}  // namespace moka

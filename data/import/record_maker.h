// From one picture of a source to the bytes of its record: reading, decoding, resizing, encoding, as an import's
// options say. A maker holds the scratch of one worker.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/image/image.h"
#include "data/import/import.h"
#include "data/labels/record_warning.h"
#include "data/record_kind.h"
#include "data/records/record_source.h"
#include "proto/moka.pb.h"
#include "proto/record.pb.h"

namespace moka {

// The facts that an importer knows of a record before any work. The functions own what they need: a worker calls them
// later.
struct ImportItem {
  std::string name;
  std::string place = {};  // for messages, where the name alone does not say what is meant
  int32_t label = 0;
  int64_t index = 0;       // in the source's order, which the writer gives
  int64_t file_bytes = 0;  // that `read` will give, where that is known
  int64_t held_bytes = 0;  // that the functions below own
  // One of these gives the picture. An image file is decoded once, so that a bad one is found here and not while
  // training. Errors of `read` make the item a bad one.
  std::function<std::string()> read = {};
  std::function<void(Image&)> draw = {};
  // Instead of them: a whole record of that kind, which is checked and stays as it is. Errors make the item a bad one.
  std::function<std::string()> record = {};
  RecordKind kind = RecordKind::kDatum;
  // If given, the record is an AnnotatedDatum: it is given the decoded picture and fills all but the datum.
  using Describe = std::function<void(const Image&, AnnotatedDatum&, RecordWarnings& warnings)>;
  Describe describe = {};
  // If given, the record is a SampleRecord: it is given the decoded picture and fills all but the picture; masks and
  // run lengths are of that picture's size, whatever size is stored.
  using DescribeSample = std::function<void(const Image&, SampleRecord&, RecordWarnings& warnings)>;
  DescribeSample describe_sample = {};
  // Whether bad data that `describe` finds make the item a bad one, as those of `describe_sample` do; otherwise, they
  // end the import.
  bool may_be_misdescribed = false;
};

struct MadeRecord {
  std::string wire;
  std::string shape;  // "CxHxW"; empty for a SampleRecord
  RecordWarnings warnings;
  ImageLosses losses = {};    // of the picture
  std::optional<Error> bad;   // no record: the item cannot be read
  std::exception_ptr failed;  // no record: the import ends
};

class RecordMaker {
 public:
  explicit RecordMaker(const ImportOptions& options) : options_(options) {}
  MadeRecord Make(const ImportItem& item);

 private:
  void MakePicture(const ImportItem& item, MadeRecord& made);
  void Describe(const ImportItem& item, MadeRecord& made);
  void CheckRecord(const ImportItem& item, MadeRecord& made);
  bool KeepsBytes() const;
  // [height, width] that an image is stored in.
  std::pair<int64_t, int64_t> SizeFor(const Image& image) const;
  ImportOptions::Storage StorageOfPixels() const;
  void StorePixels();
  void MovePictureToSample();
  void Serialize(const ImportItem& item, MadeRecord& made);

  ImportOptions options_;
  ImageDecoder decoder_;
  std::string file_;  // the item's image file; empty when it was drawn
  Image decoded_;
  Image resized_;
  ImageHeader::Format file_format_ = ImageHeader::Format::kUnknown;
  Datum datum_;
  AnnotatedDatum annotated_;
  SampleRecord sample_;
  RecordScratch scratch_;
};

// [height, width] of a picture whose shorter side is enlarged to `least`, or made as small as `short_most`, and whose
// longer one is then made as small as `most`; 0: no bound.
std::pair<int64_t, int64_t> SizeWithin(int64_t height, int64_t width, int64_t least, int64_t most,
                                       int64_t short_most = 0);

// Errors: kUsage for sizes out of range.
void CheckSizes(const ImportOptions& options);

// The shape of the picture of a Datum or an AnnotatedDatum as MadeRecord has it. Errors: kBadData.
std::string ShapeOfRecord(std::string_view wire, RecordKind kind);

// Planar copy [C,H,W] of an image's pixels.
std::string PlanarBytes(const Image& image);
// The image of planar bytes [C,H,W].
Image ImageFromPlanes(std::span<const uint8_t> planes, int64_t channels, int64_t height, int64_t width);

}  // namespace moka

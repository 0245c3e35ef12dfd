// Where a pipeline's records come from: random access by index, in place where possible. Loading is const and safe
// from any number of threads; what a thread needs of its own is its RecordScratch.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/image/picture_cache.h"
#include "data/image/resample.h"
#include "data/records/lmdb_file.h"
#include "data/stage_clock.h"

namespace moka {

// Pixels and bytes live in the source or in the scratch, until the scratch's next use.
struct Record {
  PixelView pixels = {};
  float label = 0;
  std::span<const float> labels = {};  // where a record has several
  std::string_view file = {};          // an image file that is not decoded yet; then there are no pixels
};

struct RecordScratch {
  ImageDecoder decoder;
  Image image;
  Image resized;
  std::vector<float> floats;
  std::string file;
  StageClock clock;
  int64_t cached = 0;  // pictures that came from a cache
};

class RecordSource {
 public:
  RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;
  virtual ~RecordSource() = default;

  virtual int64_t size() const = 0;
  // For messages: `record "00000012_cat.jpg" (index 12) of PATH`.
  virtual std::string NameOf(int64_t i) const = 0;
  // Returns the channels that image files are decoded to and 8-bit pixels are converted to.
  virtual ImageChannels channels() const = 0;
  // Image files stay undecoded. Errors: kBadData and kNoInput saying what is wrong; the caller adds the name.
  // Requires: 0 <= i < size().
  virtual Record Read(int64_t i, RecordScratch& scratch) const = 0;
  // Returns a record with its pixels decoded. Errors: as above.
  Record Load(int64_t i, RecordScratch& scratch) const;
  // A whole picture that was decoded from record i: sources that have a cache keep it.
  virtual void Keep(int64_t /*i*/, const Image& /*picture*/, float /*label*/) const {}
  // The label that counts as a record's class, without decoding its picture; none where records have several labels.
  // Errors: kBadData for a record that cannot be read.
  virtual std::optional<int64_t> ClassOf(int64_t i) const = 0;
  // As SampleMaker has them.
  virtual bool reads_ahead() const { return false; }
  virtual void WillNeed(int64_t /*i*/) const {}
  virtual void CheckFile() const {}
  virtual int64_t cache_bytes() const { return 0; }
  virtual bool can_cache() const { return false; }
};

// Pixels that are stored raw become those that an image file would be decoded to, in `converted` where they change.
// Floats, and bytes of other than 1 or 3 channels, are no pictures and stay as they are.
void ConvertPixels(ImageChannels channels, Image& converted, PixelView& pixels);
// Decodes a record's file, if that is what it is, into the scratch; else converts its pixels. Errors: kBadData.
void DecodeRecord(ImageChannels channels, RecordScratch& scratch, Record& record);
// A Datum: in place when raw bytes or a file, floats copied into the scratch.
// Errors: kBadData when its sizes and its data do not agree.
Record ReadDatum(std::string_view wire, RecordScratch& scratch);
// Returns a Datum with its pixels decoded.
Record LoadDatum(std::string_view wire, ImageChannels channels, RecordScratch& scratch);

// Datums of an LMDB. Of encoded ones, decoded pictures are kept up to cache_bytes.
class LmdbSource : public RecordSource {
 public:
  LmdbSource(std::unique_ptr<const LmdbReader> reader, ImageChannels channels, int64_t cache_bytes = 0);
  int64_t size() const override { return reader_->size(); }
  std::string NameOf(int64_t i) const override { return reader_->NameOf(i); }
  ImageChannels channels() const override { return channels_; }
  Record Read(int64_t i, RecordScratch& scratch) const override;
  void Keep(int64_t i, const Image& picture, float label) const override;
  std::optional<int64_t> ClassOf(int64_t i) const override;
  bool reads_ahead() const override { return reader_->reads_ahead(); }
  void WillNeed(int64_t i) const override { reader_->WillNeed(i); }
  void CheckFile() const override { reader_->CheckFile(); }
  int64_t cache_bytes() const override { return cache_ ? cache_->bytes() : 0; }
  bool can_cache() const override { return true; }

 private:
  void TellNonFinite(int64_t i, std::span<const float> values) const;

  std::unique_ptr<const LmdbReader> reader_;
  ImageChannels channels_;
  std::unique_ptr<PictureCache> cache_;         // none: nothing is kept
  mutable std::atomic<bool> told_ = false;      // that a record holds what is not finite
  mutable std::atomic<int64_t> looked_at_ = 0;  // records, for such values
};

// One line of an image list: "path label"; the path may hold blanks.
struct ListedImage {
  std::string path;
  int32_t label = 0;
  std::vector<float> labels = {};
  int line = 0;
};
// Errors: kNoInput; kBadData at "file:line".
std::vector<ListedImage> ReadImageList(const std::filesystem::path& path);
// Lines "path label label .." with that many labels, which are finite numbers. Errors: as above.
std::vector<ListedImage> ReadImageList(const std::filesystem::path& path, int64_t labels);

// Image files named by a list.
class ImageListSource : public RecordSource {
 public:
  struct Options {
    std::filesystem::path list;
    std::filesystem::path base;  // where relative paths start
    std::string prefix;          // Caffe's root_folder, put before each path as text
    int64_t height = 0;          // 0: as it is
    int64_t width = 0;
    ImageChannels channels = ImageChannels::kColor;
    int64_t labels = 0;  // a line has; 0: one whole number
  };
  explicit ImageListSource(Options options)
      : options_(std::move(options)),
        images_(options_.labels > 0 ? ReadImageList(options_.list, options_.labels) : ReadImageList(options_.list)) {}
  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  std::string NameOf(int64_t i) const override;
  ImageChannels channels() const override { return options_.channels; }
  Record Read(int64_t i, RecordScratch& scratch) const override;
  std::optional<int64_t> ClassOf(int64_t i) const override;

 private:
  Options options_;
  std::vector<ListedImage> images_;
};

}  // namespace moka

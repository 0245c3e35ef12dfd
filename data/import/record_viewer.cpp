// A file that a strict decoder refuses is decoded once more as far as it goes: so a file that is cut off is told from
// one that is no picture.
#include "data/import/record_viewer.h"

#include <algorithm>
#include <new>

#include "core/text.h"
#include "data/image/resample.h"

namespace moka {
namespace {

// Pictures below take memory that nobody counts.
constexpr int64_t kCountedBytes = int64_t{1} << 20U;
// Scratch that a worker keeps from one picture to the next.
constexpr size_t kKeptBytes = size_t{8} << 20U;

// Decoding takes so many bytes for each pixel: samples of two bytes in some formats, and the three of the result.
constexpr int64_t kDecodingBytes = 6;

// Holds bytes of a budget while it lives.
class TakenMemory {
 public:
  TakenMemory(MemoryBudget& budget, int64_t bytes) : budget_(budget), bytes_(bytes < kCountedBytes ? 0 : bytes) {
    if (bytes_ > 0) budget_.Take(bytes_);
  }
  TakenMemory(const TakenMemory&) = delete;
  TakenMemory& operator=(const TakenMemory&) = delete;
  ~TakenMemory() {
    if (bytes_ > 0) budget_.Give(bytes_);
  }

 private:
  MemoryBudget& budget_;
  int64_t bytes_;
};

int64_t DecodingBytes(std::string_view file) {
  try {
    const ImageHeader header = ReadImageHeader(file);
    constexpr int64_t kMostPixels = DecodeOptions().pixel_limit;
    if (header.width < 1 || header.height < 1 || header.width > kMostPixels / header.height) return 0;
    return header.width * header.height * kDecodingBytes;
  } catch (const Error&) {
    return 0;  // decoding says why
  }
}

// Returns the error of whatever was thrown. Requires: called while it is caught.
Error CaughtError() {
  try {
    throw;
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kBadData, "it takes more memory than there is");
  } catch (const std::exception& e) {
    return Error(ErrorKind::kBadData, Printable(e.what()));
  }
}

}  // namespace

void MemoryBudget::Take(int64_t bytes) {
  std::unique_lock lock(mutex_);
  given_.wait(lock, [&] { return taken_ == 0 || taken_ + bytes <= bytes_; });
  taken_ += bytes;
}

void MemoryBudget::Give(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
  }
  given_.notify_all();
}

MadeRecord RecordViewer::View(const ImportItem& item) {
  MadeRecord made;
  try {
    if (visitor_.Wants(item.index)) LookAt(item);
  } catch (...) {
    made.failed = std::current_exception();
  }
  return made;
}

void RecordViewer::LookAt(const ImportItem& item) {
  warnings_.clear();
  faults_.clear();
  file_.clear();
  has_image_ = false;
  is_described_ = false;
  label_.reset();
  if (item.kind == RecordKind::kDatum && !item.describe && !item.describe_sample) label_ = item.label;
  format_ = ImageHeader::Format::kUnknown;
  const TakenMemory of_file(memory_.files, item.file_bytes);
  try {
    ReadPicture(item);
  } catch (...) {
    const Error error = CaughtError();
    const bool is_missing = error.kind() == ErrorKind::kNoInput;
    AddFault(is_missing ? ItemFault::Kind::kMissing : ItemFault::Kind::kUnreadable, error);
  }
  const TakenMemory of_pixels(memory_.pixels, file_.empty() ? 0 : DecodingBytes(file_));
  if (!file_.empty()) DecodeFile();
  if (has_image_ && (item.describe || item.describe_sample)) Describe(item);
  const bool has_picture = has_image_ && image_.width > 0 && (image_.channels == 1 || image_.channels == 3);
  const bool has_annotated = is_described_ && (item.describe || item.kind == RecordKind::kAnnotated);
  visitor_.Visit({.item = item,
                  .file = file_,
                  .image = has_picture ? &image_ : nullptr,
                  .format = format_,
                  .losses = scratch_.decoder.TakeLosses(),
                  .label = label_,
                  .annotated = has_annotated ? &annotated_ : nullptr,
                  .sample = is_described_ && item.describe_sample ? &sample_ : nullptr,
                  .warnings = warnings_,
                  .faults = faults_});
  if (image_.pixels.capacity() > kKeptBytes || file_.capacity() > kKeptBytes) {
    file_ = {};
    image_ = {};
    scratch_ = {};
  }
}

void RecordViewer::ReadPicture(const ImportItem& item) {
  if (item.record) {
    ReadRecord(item);
  } else if (item.draw) {
    item.draw(image_);
    has_image_ = true;
  } else {
    file_ = item.read();
    if (file_.empty()) throw Error(ErrorKind::kBadData, "the file is empty");
  }
}

void RecordViewer::DecodeFile() {
  try {
    format_ = ReadImageHeader(file_).format;
    scratch_.decoder.Decode(file_, {}, image_);
    has_image_ = true;
    return;
  } catch (...) {
    AddFault(ItemFault::Kind::kUnreadable, CaughtError());
  }
  try {
    scratch_.decoder.Decode(file_, {.damage = DecodeOptions::Damage::kLenient}, image_);
    has_image_ = true;
    faults_.back().kind = ItemFault::Kind::kDamaged;
  } catch (const std::exception&) {
    has_image_ = false;  // the first fault says why
  }
}

// A whole record of a database of Caffe's.
void RecordViewer::ReadRecord(const ImportItem& item) {
  const std::string wire = item.record();
  Datum datum;
  const bool is_annotated = item.kind == RecordKind::kAnnotated;
  const bool is_parsed = is_annotated ? annotated_.ParseFromString(wire) : datum.ParseFromString(wire);
  if (!is_parsed) throw Error(ErrorKind::kBadData, "it is no record of its kind");
  if (is_annotated) datum.Swap(annotated_.mutable_datum());
  is_described_ = is_annotated;
  if (!is_annotated) label_ = datum.label();
  if (datum.encoded()) {
    file_ = std::move(*datum.mutable_data());
    if (file_.empty()) throw Error(ErrorKind::kBadData, "its picture is empty");
    return;
  }
  const PixelView pixels = LoadDatum(datum.SerializeAsString(), ImageChannels::kAsStored, scratch_).pixels;
  has_image_ = pixels.bytes != nullptr && (pixels.channels == 1 || pixels.channels == 3);
  if (has_image_) image_ = ImageOf(pixels);
}

void RecordViewer::Describe(const ImportItem& item) {
  annotated_.Clear();
  sample_.Clear();
  try {
    if (item.describe) item.describe(image_, annotated_, warnings_);
    if (item.describe_sample) item.describe_sample(image_, sample_, warnings_);
    is_described_ = true;
    if (item.describe_sample && sample_.label_size() == 1) label_ = sample_.label(0);
  } catch (...) {
    AddFault(ItemFault::Kind::kMislabeled, CaughtError());
  }
}

}  // namespace moka

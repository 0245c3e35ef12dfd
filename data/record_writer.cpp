#include "data/record_writer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"

namespace moka {

RecordWriter::RecordWriter(const std::filesystem::path& out, const ImportOptions& options, int64_t total)
    : options_(options), total_(options.limit > 0 && total > 0 ? std::min(total, options.limit) : total), writer_(out) {
  constexpr int64_t kMaxSide = int64_t{1} << 14U;
  const bool both = (options.height > 0) == (options.width > 0);
  if (!both || options.height < 0 || options.width < 0 || options.height > kMaxSide || options.width > kMaxSide) {
    throw Error(ErrorKind::kUsage, StrCat("cannot resize to height ", options.height, " and width ", options.width,
                                          ", expected both 0 or both 1..", kMaxSide));
  }
  if (options.min_dim < 0 || options.max_dim < 0 || options.min_dim > kMaxSide || options.max_dim > kMaxSide) {
    throw Error(ErrorKind::kUsage, StrCat("cannot bring sides between ", options.min_dim, " and ", options.max_dim,
                                          ", expected 0..", kMaxSide));
  }
}

void RecordWriter::AddImage(const Image& image, int32_t label, std::string_view name) {
  decoded_ = image;
  if (options_.channels != ImageChannels::kAsStored) {
    ConvertChannels(options_.channels == ImageChannels::kColor ? 3 : 1, decoded_);
  }
  Write(decoded_, label, name);
}

void RecordWriter::AddFile(std::string_view file, int32_t label, std::string_view name) {
  if (Decode(file, name)) Store(file, label, name);
}

void RecordWriter::AddAnnotated(std::string_view file, int32_t label, std::string_view name, const Describe& describe) {
  if (!Decode(file, name)) return;
  annotated_.emplace();
  describe(decoded_, *annotated_);
  Store(file, label, name);
  annotated_.reset();
}

bool RecordWriter::Decode(std::string_view file, std::string_view name) {
  try {
    decoder_.Decode(file, {.channels = options_.channels}, decoded_);
    file_format_ = ReadImageHeader(file).format;
  } catch (const Error& e) {
    AddBad(name, e);
    return false;
  }
  return true;
}

bool RecordWriter::KeepsBytes() const {
  using Storage = ImportOptions::Storage;
  if (options_.height > 0 || options_.min_dim > 0 || options_.max_dim > 0) return false;
  if (!options_.stores_like_caffe) {
    return options_.storage == Storage::kSource && options_.channels == ImageChannels::kAsStored;
  }
  switch (options_.storage) {
    case Storage::kSource: return true;
    case Storage::kJpeg: return file_format_ == ImageHeader::Format::kJpeg;
    case Storage::kPng: return file_format_ == ImageHeader::Format::kPng;
    case Storage::kRaw: return false;
  }
  return false;
}

void RecordWriter::Store(std::string_view file, int32_t label, std::string_view name) {
  if (!KeepsBytes()) {
    Write(decoded_, label, name);
    return;
  }
  datum_.Clear();
  datum_.set_encoded(true);
  datum_.set_data(file.data(), file.size());
  datum_.set_channels(static_cast<int32_t>(decoded_.channels));
  datum_.set_height(static_cast<int32_t>(decoded_.height));
  datum_.set_width(static_cast<int32_t>(decoded_.width));
  PutDatum(label, name);
}

void RecordWriter::AddBad(std::string_view name, const Error& error) {
  if (options_.on_bad_record == ImportOptions::OnBadRecord::kStop) {
    const bool is_named = error.text().find(name) != std::string::npos;
    throw Error(error.kind(), is_named ? error.text() : StrCat(name, ": ", error.text()));
  }
  report_.skipped.push_back(StrCat(name, ": ", error.text()));
}

std::pair<int64_t, int64_t> RecordWriter::SizeFor(const Image& image) const {
  if (options_.min_dim == 0 && options_.max_dim == 0) {
    return options_.height > 0 ? std::pair(options_.height, options_.width) : std::pair(image.height, image.width);
  }
  const auto shorter = static_cast<float>(std::min(image.height, image.width));
  const auto longer = static_cast<float>(std::max(image.height, image.width));
  const auto least = static_cast<float>(options_.min_dim);
  const auto most = static_cast<float>(options_.max_dim);
  float scale = 1;
  if (shorter < least) scale = least / shorter;
  if (options_.max_dim > 0 && std::floor(scale * longer) > most) scale = most / longer;
  const auto side = [&](int64_t pixels) {
    return std::max<int64_t>(1, std::llrint(static_cast<double>(pixels) * static_cast<double>(scale)));
  };
  return {side(image.height), side(image.width)};
}

// A file that must be encoded anew stays of its kind; for other kinds than JPEG that is a PNG, which loses nothing.
ImportOptions::Storage RecordWriter::StorageOfPixels() const {
  using Storage = ImportOptions::Storage;
  if (!options_.stores_like_caffe || options_.storage != Storage::kSource) return options_.storage;
  return file_format_ == ImageHeader::Format::kJpeg ? Storage::kJpeg : Storage::kPng;
}

void RecordWriter::Write(const Image& image, int32_t label, std::string_view name) {
  const Image* from = &image;
  const auto [height, width] = SizeFor(image);
  if (height != image.height || width != image.width) {
    ResizeImage(image, width, height, Interpolation::kArea, resized_);
    from = &resized_;
  }
  const ImportOptions::Storage storage = StorageOfPixels();
  datum_.Clear();
  datum_.set_channels(static_cast<int32_t>(from->channels));
  datum_.set_height(static_cast<int32_t>(from->height));
  datum_.set_width(static_cast<int32_t>(from->width));
  switch (storage) {
    case ImportOptions::Storage::kJpeg: datum_.set_data(EncodeJpeg(*from)); break;
    case ImportOptions::Storage::kPng: datum_.set_data(EncodePng(*from)); break;
    default: datum_.set_data(PlanarBytes(*from));
  }
  datum_.set_encoded(storage == ImportOptions::Storage::kJpeg || storage == ImportOptions::Storage::kPng);
  PutDatum(label, name);
}

void RecordWriter::PutDatum(int32_t label, std::string_view name) {
  datum_.set_label(label);
  report_.shapes.insert(StrCat(datum_.channels(), "x", datum_.height(), "x", datum_.width()));
  bool is_written = false;
  if (annotated_) {
    annotated_->mutable_datum()->Swap(&datum_);
    is_written = annotated_->SerializeToString(&wire_);
  } else {
    is_written = datum_.SerializeToString(&wire_);
  }
  if (!is_written) throw Error(ErrorKind::kBadData, StrCat(name, ": too large for a record"));
  writer_.Put(LmdbKey(writer_.entries(), name), wire_);
  constexpr int64_t kProgressStep = 256;
  if (options_.progress && (writer_.entries() % kProgressStep == 0 || writer_.entries() == total_)) {
    options_.progress(writer_.entries(), total_);
  }
}

ImportReport RecordWriter::Finish(std::vector<std::string> labels) {
  if (writer_.entries() == 0) {
    throw Error(ErrorKind::kBadData,
                StrCat("nothing to import: ", report_.skipped.size(), " files were bad, none was good"));
  }
  report_.records = writer_.entries();
  report_.labels = std::move(labels);
  if (!report_.labels.empty()) writer_.PutFile("labels.txt", Join(report_.labels, "\n") + "\n");
  writer_.Finish();
  return std::move(report_);
}

std::string PlanarBytes(const Image& image) {
  const int64_t plane = image.height * image.width;
  std::string bytes(image.pixels.size(), '\0');
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < image.channels; ++c) {
      bytes[static_cast<size_t>(c * plane + i)] =
          static_cast<char>(image.pixels[static_cast<size_t>(i * image.channels + c)]);
    }
  }
  return bytes;
}

Image ImageFromPlanes(std::span<const uint8_t> planes, int64_t channels, int64_t height, int64_t width) {
  Image image;
  image.Resize(width, height, channels);
  Require(planes.size() == image.pixels.size(), "ImageFromPlanes: C*H*W bytes");
  const int64_t plane = height * width;
  for (int64_t i = 0; i < plane * channels; ++i) {
    image.pixels[static_cast<size_t>(i)] = planes[static_cast<size_t>(i % channels * plane + i / channels)];
  }
  return image;
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

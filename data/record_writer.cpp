#include "data/record_writer.h"

#include <algorithm>
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
}

void RecordWriter::AddImage(const Image& image, int32_t label, std::string_view name) {
  decoded_ = image;
  if (options_.channels != ImageChannels::kAsStored) {
    ConvertChannels(options_.channels == ImageChannels::kColor ? 3 : 1, decoded_);
  }
  Write(decoded_, label, name);
}

void RecordWriter::AddFile(std::string_view file, int32_t label, std::string_view name) {
  try {
    decoder_.Decode(file, {.channels = options_.channels}, decoded_);
  } catch (const Error& e) {
    AddBad(name, e);
    return;
  }
  const bool as_it_is = options_.storage == ImportOptions::Storage::kSource && options_.height == 0 &&
                        options_.channels == ImageChannels::kAsStored;
  if (!as_it_is) {
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

void RecordWriter::Write(const Image& image, int32_t label, std::string_view name) {
  const Image* from = &image;
  if (options_.height > 0) {
    ResizeImage(image, options_.width, options_.height, Interpolation::kArea, resized_);
    from = &resized_;
  }
  datum_.Clear();
  datum_.set_channels(static_cast<int32_t>(from->channels));
  datum_.set_height(static_cast<int32_t>(from->height));
  datum_.set_width(static_cast<int32_t>(from->width));
  switch (options_.storage) {
    case ImportOptions::Storage::kJpeg: datum_.set_data(EncodeJpeg(*from)); break;
    case ImportOptions::Storage::kPng: datum_.set_data(EncodePng(*from)); break;
    default: datum_.set_data(PlanarBytes(*from));
  }
  datum_.set_encoded(options_.storage == ImportOptions::Storage::kJpeg ||
                     options_.storage == ImportOptions::Storage::kPng);
  PutDatum(label, name);
}

void RecordWriter::PutDatum(int32_t label, std::string_view name) {
  datum_.set_label(label);
  if (!datum_.SerializeToString(&wire_)) throw Error(ErrorKind::kBadData, StrCat(name, ": too large for a record"));
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

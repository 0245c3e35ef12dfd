#include "data/inspect.h"

#include <algorithm>
#include <cmath>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/text.h"
#include "data/datum_view.h"
#include "data/record_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Calls visit(channel, value) for every value of a record, channel by channel.
template <class Visit>
void VisitValues(const PixelView& pixels, Visit&& visit) {
  const int64_t plane = pixels.height * pixels.width;
  const bool planar = pixels.order == PixelView::Order::kPlanar;
  for (int64_t c = 0; c < pixels.channels; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      const int64_t at = planar ? c * plane + i : i * pixels.channels + c;
      visit(static_cast<size_t>(c), static_cast<size_t>(c * plane + i),
            pixels.bytes != nullptr ? static_cast<double>(pixels.bytes[at]) : static_cast<double>(pixels.floats[at]));
    }
  }
}

std::string ShapeText(const PixelView& pixels) {
  return StrCat(pixels.channels, "x", pixels.height, "x", pixels.width);
}

// Sums of values and squares a channel.
struct ChannelSums {
  std::vector<double> values;
  std::vector<double> squares;
  double count = 0;  // values a channel

  void Add(const PixelView& pixels) {
    const auto channels = static_cast<size_t>(pixels.channels);
    if (values.empty()) {
      values.resize(channels);
      squares.resize(channels);
    }
    if (values.size() != channels) return;
    count += static_cast<double>(pixels.height * pixels.width);
    VisitValues(pixels, [&](size_t c, size_t /*i*/, double value) {
      values[c] += value;
      squares[c] += value * value;
    });
  }
};

// The reason why a record is bad; empty when it is good.
std::string Fault(const LmdbReader& reader, int64_t i, RecordScratch& scratch) {
  try {
    const std::string_view wire = reader.value(i);
    if (!reader.checksums().empty() && Crc32c(wire) != reader.checksums()[static_cast<size_t>(i)]) {
      return "its checksum differs from the importer's";
    }
    LoadDatum(wire, ImageChannels::kAsStored, scratch);
    return {};
  } catch (const Error& e) {
    return e.what();
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

std::vector<std::string> ReadLabelNames(const fs::path& path) {
  std::vector<std::string> label_names;
  std::error_code ignored;
  const fs::path file = path / "labels.txt";
  if (!fs::is_regular_file(file, ignored)) return label_names;
  constexpr int64_t kLimit = int64_t{16} << 20U;
  for (const std::string& line : Split(ReadFile(file, kLimit), '\n')) {
    if (!Trim(line).empty()) label_names.emplace_back(Trim(line));
  }
  return label_names;
}

Image ImageOf(const PixelView& pixels) {
  if (pixels.bytes == nullptr || (pixels.channels != 1 && pixels.channels != 3)) {
    throw Error(ErrorKind::kBadData, "it is no picture of bytes");
  }
  Image image;
  image.Resize(pixels.width, pixels.height, pixels.channels);
  VisitValues(pixels, [&](size_t c, size_t at, double value) {
    const size_t pixel = at % static_cast<size_t>(pixels.height * pixels.width);
    image.pixels[pixel * static_cast<size_t>(pixels.channels) + c] = static_cast<uint8_t>(value);
  });
  return image;
}

LmdbSummary InspectLmdb(const fs::path& path, const DataProgress& progress) {
  const LmdbReader reader(path);
  LmdbSummary summary;
  summary.records = reader.size();
  summary.file_bytes = reader.file_bytes();
  summary.label_names = ReadLabelNames(path);
  RecordScratch scratch;
  ChannelSums sums;
  for (int64_t i = 0; i < reader.size(); ++i) {
    const std::string_view wire = reader.value(i);
    summary.value_bytes += static_cast<int64_t>(wire.size());
    if (progress) progress(i, reader.size());
    try {
      const DatumView datum = ParseDatum(wire);
      const Record record = LoadDatum(wire, ImageChannels::kAsStored, scratch);
      summary.encoded += datum.encoded ? 1 : 0;
      summary.floats += record.pixels.floats != nullptr ? 1 : 0;
      ++summary.labels[datum.label];
      ++summary.shapes[ShapeText(record.pixels)];
      sums.Add(record.pixels);
    } catch (const Error& e) {
      summary.bad.push_back({Printable(reader.key(i)), i, e.what()});
    }
  }
  for (size_t c = 0; c < sums.values.size(); ++c) {
    const double mean = sums.values[c] / sums.count;
    summary.mean.push_back(mean);
    summary.stddev.push_back(std::sqrt(std::max(0.0, sums.squares[c] / sums.count - mean * mean)));
  }
  return summary;
}

LmdbVerdict VerifyLmdb(const fs::path& path) {
  const LmdbReader reader(path);
  LmdbVerdict verdict;
  verdict.records = reader.size();
  verdict.has_checksums = !reader.checksums().empty();
  std::vector<RecordScratch> scratch(static_cast<size_t>(ThreadCount()));
  std::vector<std::string> faults(static_cast<size_t>(reader.size()));
  constexpr int64_t kGrain = 16;
  ParallelFor(reader.size(), kGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      faults[static_cast<size_t>(i)] = Fault(reader, i, scratch[static_cast<size_t>(thread)]);
    }
  });
  for (int64_t i = 0; i < reader.size(); ++i) {
    std::string& fault = faults[static_cast<size_t>(i)];
    if (!fault.empty()) verdict.bad.push_back({Printable(reader.key(i)), i, std::move(fault)});
  }
  return verdict;
}

BlobProto ComputeMean(const fs::path& path, const DataProgress& progress) {
  const LmdbReader reader(path);
  if (reader.size() == 0) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no records"));
  RecordScratch scratch;
  std::vector<double> sums;
  std::string shape;
  BlobProto blob;
  for (int64_t i = 0; i < reader.size(); ++i) {
    if (progress) progress(i, reader.size());
    try {
      const PixelView pixels = LoadDatum(reader.value(i), ImageChannels::kAsStored, scratch).pixels;
      if (shape.empty()) {
        shape = ShapeText(pixels);
        sums.resize(static_cast<size_t>(pixels.channels * pixels.height * pixels.width));
        for (const int64_t dim : {int64_t{1}, pixels.channels, pixels.height, pixels.width}) {
          blob.mutable_shape()->add_dim(dim);
        }
      }
      if (ShapeText(pixels) != shape) {
        throw Error(ErrorKind::kBadData, StrCat("its shape is ", ShapeText(pixels), ", the first record's ", shape));
      }
      VisitValues(pixels, [&](size_t /*c*/, size_t at, double value) { sums[at] += value; });
    } catch (const Error& e) {
      throw Error(e.kind(), StrCat("record \"", Printable(reader.key(i)), "\" (index ", i, ") of ", path.string(), ": ",
                                   e.text()));
    }
  }
  for (const double sum : sums) blob.add_data(static_cast<float>(sum / static_cast<double>(reader.size())));
  return blob;
}

void SaveBlob(const BlobProto& blob, const fs::path& path) { WriteFileAtomically(path, blob.SerializeAsString()); }

}  // namespace moka

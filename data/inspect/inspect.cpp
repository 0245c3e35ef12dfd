// Sums are in double, and the mean image counts places of records of one size. The check of every record is split among
// the threads and told in order.
#include "data/inspect/inspect.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "data/inspect/channel_sums.h"
#include "data/records/record_database.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

std::string ShapeText(const PixelView& pixels) {
  return StrCat(pixels.channels, "x", pixels.height, "x", pixels.width);
}

// Sums of the values at each place of records of one size. If one picture is coloured all are, as in a layer that reads
// them: a grey one is three equal channels.
class MeanSums {
 public:
  void Add(const PixelView& pixels) {
    const ImageSize size = SizeOf(pixels);
    if (sums_.empty()) {
      size_ = size;
      sums_.resize(static_cast<size_t>(size.channels * size.height * size.width));
    }
    const bool may_mix = size.height == size_.height && size.width == size_.width && pixels.bytes != nullptr;
    if (may_mix && size.channels == 3 && size_.channels == 1) {
      const std::vector<double> gray = sums_;
      for (int i = 0; i < 2; ++i) sums_.insert(sums_.end(), gray.begin(), gray.end());
      size_.channels = 3;
      were_mixed_ = true;
    }
    const bool is_gray = may_mix && size.channels == 1 && size_.channels == 3;
    if (!is_gray && ShapeText(pixels) != TextOf(size_)) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat("its shape is ", ShapeText(pixels), ", the first record's ", TextOf(size_)),
                  "a mean image needs records of one size: import with --resize HxW");
    }
    were_mixed_ = were_mixed_ || is_gray;
    const size_t plane = static_cast<size_t>(size_.height * size_.width);
    for (size_t c = 0; c < (is_gray ? 3U : 1U); ++c) {
      VisitValues(pixels, [&](size_t /*c*/, size_t at, double value) { sums_[c * plane + at] += value; });
    }
  }

  bool were_mixed() const { return were_mixed_; }

  BlobProto Mean(int64_t records) const {
    BlobProto blob;
    for (const int64_t dim : {int64_t{1}, size_.channels, size_.height, size_.width})
      blob.mutable_shape()->add_dim(dim);
    for (const double sum : sums_) blob.add_data(static_cast<float>(sum / static_cast<double>(records)));
    return blob;
  }

 private:
  static std::string TextOf(const ImageSize& size) { return StrCat(size.channels, "x", size.height, "x", size.width); }

  ImageSize size_;
  std::vector<double> sums_;
  bool were_mixed_ = false;
};

std::vector<PointCount> PointsOf(const SampleSchema& schema) {
  std::vector<PointCount> points;
  for (const auto* names : {&schema.point(), &schema.box_point()}) {
    for (const std::string& name : *names) points.push_back({.name = name});
  }
  return points;
}

void Count(const google::protobuf::RepeatedPtrField<SamplePoint>& found, std::vector<PointCount>& points) {
  for (int i = 0; i < found.size(); ++i) {
    PointCount& count = points[static_cast<size_t>(i)];
    count.visible += found[i].visible() ? 1 : 0;
    count.hidden += !found[i].visible() && found[i].hidden() ? 1 : 0;
  }
}

// The reason why a record is bad; empty when it is good.
std::string Fault(const RecordDatabase& database, int64_t i, RecordDatabase::Scratch& scratch) {
  try {
    database.Load(i, scratch);
    return {};
  } catch (const Error& e) {
    return e.text();
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

LmdbSummary InspectLmdb(const fs::path& path, const DataProgress& progress) {
  const RecordDatabase database(path);
  LmdbSummary summary;
  summary.records = database.size();
  summary.file_bytes = database.reader().file_bytes();
  summary.label_names = database.label_names();
  summary.box_names = database.box_names();
  const auto& mask_names = database.schema().mask_class();
  summary.mask_names.assign(mask_names.begin(), mask_names.end());
  summary.points = PointsOf(database.schema());
  RecordDatabase::Scratch scratch;
  ChannelSums sums;
  std::array<int64_t, 256> mask_pixels{};
  for (int64_t i = 0; i < database.size(); ++i) {
    summary.value_bytes += database.reader().value_bytes(i);
    if (progress) progress(i, database.size());
    try {
      const RecordDatabase::Content content = database.Load(i, scratch);
      summary.encoded += content.is_file ? 1 : 0;
      summary.floats += content.pixels.floats != nullptr ? 1 : 0;
      if (content.label) ++summary.labels[*content.label];
      for (const int64_t label : content.boxes) ++summary.boxes[label];
      if (!scratch.sample.mask().empty()) {
        for (const uint8_t value : scratch.mask.pixels) ++mask_pixels[value];
      }
      Count(scratch.sample.point(), summary.points);
      for (const SampleBox& box : scratch.sample.box()) Count(box.point(), summary.points);
      summary.boxless += content.boxes.empty() ? 1 : 0;
      ++summary.shapes[ShapeText(content.pixels)];
      sums.Add(content.pixels);
    } catch (const Error& e) {
      summary.bad.push_back({Printable(database.reader().key(i)), i, e.what()});
    }
  }
  for (size_t value = 0; value < mask_pixels.size(); ++value) {
    if (mask_pixels[value] > 0) summary.mask_pixels[static_cast<int64_t>(value)] = mask_pixels[value];
  }
  summary.mean = sums.Mean();
  summary.stddev = sums.Deviation();
  return summary;
}

LmdbVerdict VerifyLmdb(const fs::path& path) {
  const RecordDatabase database(path);
  LmdbVerdict verdict;
  verdict.records = database.size();
  verdict.has_checksums = !database.reader().checksums().empty();
  std::vector<RecordDatabase::Scratch> scratch(static_cast<size_t>(ThreadCount()));
  std::vector<std::string> faults(static_cast<size_t>(database.size()));
  constexpr int64_t kGrain = 16;
  ParallelFor(database.size(), kGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      faults[static_cast<size_t>(i)] = Fault(database, i, scratch[static_cast<size_t>(thread)]);
    }
  });
  for (int64_t i = 0; i < database.size(); ++i) {
    std::string& fault = faults[static_cast<size_t>(i)];
    if (!fault.empty()) verdict.bad.push_back({Printable(database.reader().key(i)), i, std::move(fault)});
  }
  return verdict;
}

BlobProto ComputeMean(const fs::path& path, const DataProgress& progress) {
  const RecordDatabase database(path);
  if (database.size() == 0) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no records"));
  RecordDatabase::Scratch scratch;
  MeanSums sums;
  for (int64_t i = 0; i < database.size(); ++i) {
    if (progress) progress(i, database.size());
    try {
      sums.Add(database.Load(i, scratch).pixels);
    } catch (const Error& e) {
      throw Error(e.kind(), {}, StrCat(database.NameOf(i), ": ", e.text()), e.hint());
    }
  }
  if (sums.were_mixed()) {
    LogWarning(StrCat(Printable(path.string()),
                      ": grey pictures are among coloured ones: in the mean, as in a layer that ",
                      "reads them, each is three equal channels"));
  }
  return sums.Mean(database.size());
}

void SaveBlob(const BlobProto& blob, const fs::path& path) { WriteFileAtomically(path, blob.SerializeAsString()); }

}  // namespace moka

// Importer of videos: their pictures, with the boxes of the tracks that go through them (data/tracks).
#include <charconv>
#include <optional>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/left_out.h"
#include "data/files/picture_walk.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/sample_writing.h"
#include "data/tracks/track_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The pictures of a video in a folder that goes away, or those of a folder of pictures where they are.
class VideoFrames {
 public:
  VideoFrames(const fs::path& video, const fs::path& out, const ImportOptions& options) {
    std::error_code code;
    if (fs::is_directory(video, code)) {
      LeftOut left_out;
      PictureWalk walk(video, left_out);
      files_ = walk.PicturesIn(video);
      warnings_ = left_out.Sentences();
      if (files_.empty()) throw Error(ErrorKind::kNoInput, StrCat("no pictures in ", Printable(video.string())));
      return;
    }
    if (!fs::exists(video, code)) {
      throw Error(ErrorKind::kNoInput, StrCat(Printable(video.string()), " does not exist"));
    }
    if (!options.video_frames) {
      throw Error(ErrorKind::kUnavailable, {}, "videos are taken apart by the program moka alone",
                  "give a folder of the video's pictures");
    }
    made_ = fs::path(StrCat(out.string(), ".frames"));
    try {
      files_ = options.video_frames(video, *made_);
    } catch (...) {
      fs::remove_all(*made_, code);
      throw;
    }
  }
  VideoFrames(const VideoFrames&) = delete;
  VideoFrames& operator=(const VideoFrames&) = delete;
  ~VideoFrames() {
    std::error_code code;
    if (made_) fs::remove_all(*made_, code);
  }

  const std::vector<fs::path>& files() const { return files_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<fs::path> files_;
  std::optional<fs::path> made_;
  std::vector<std::string> warnings_;
};

// Every how many pictures one is taken; 1 where nothing is said. Errors: kUsage.
int64_t StepOf(const std::string& text) {
  if (text.empty()) return 1;
  int64_t step = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), step);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && step >= 1) return step;
  throw Error(ErrorKind::kUsage, StrCat("video:FILE,TRACKS,EVERY: EVERY is \"", Printable(text),
                                        "\", expected a whole number of pictures from 1"));
}

void AddTracked(const TrackSet& set, const std::vector<TrackedBox>& boxes, const Image& image, SampleRecord& record,
                RecordWarnings& warnings) {
  const PictureSize size{image.width, image.height};
  const bool is_stated = set.size.width > 0;
  if (is_stated && (set.size.width != size.width || set.size.height != size.height)) {
    throw Error(ErrorKind::kBadData, StrCat(set.file, ": the size stated is ", set.size.width, " x ", set.size.height,
                                            " and the picture's ", size.width, " x ", size.height));
  }
  for (const TrackedBox& tracked : boxes) {
    const PixelBox& box = tracked.box;
    const std::string name = StrCat(set.file, ": track ", tracked.id, ": the box ", box.ToText());
    const bool reaches_out = box.xmin < 0 || box.ymin < 0 || box.xmax > static_cast<double>(size.width) ||
                             box.ymax > static_cast<double>(size.height);
    if (AddBox(size, box, tracked.label, name, record, warnings) != nullptr && reaches_out) {
      warnings.push_back(ReachesOutside(name, size));
    }
  }
}

ImportReport ImportVideo(const SourceParts& parts, const fs::path& out, const ImportOptions& options) {
  const fs::path video = parts[0];
  const fs::path tracks = parts[1];
  const int64_t step = StepOf(parts[2]);
  TrackSet set;
  if (!tracks.empty()) set = ReadTracks(tracks, TrackRole::kTruth);
  const VideoFrames frames(video, out, options);
  const auto boxes = BoxesByFrame(set, std::ssize(frames.files()));
  struct Taken {
    size_t frame;
    int64_t bytes;
  };
  std::vector<Taken> taken;
  uint32_t crc = tracks.empty() ? 0 : Crc32c(ReadFile(tracks, TextLimits{}.bytes));
  int64_t bytes = 0;
  for (size_t i = 0; i < frames.files().size(); i += static_cast<size_t>(step)) {
    const int64_t of_file = BytesOfFile(frames.files()[i]);
    taken.push_back({i, of_file});
    bytes += of_file;
    crc = Crc32c(StrCat(i, "\t", of_file, "\n"), crc);
  }
  const auto count = std::ssize(taken);
  RecordWriter writer(out, options,
                      {.text = StrCat("video ", video.string(), " ", tracks.string(), " ", step),
                       .items = count,
                       .crc32c = crc,
                       .bytes = bytes,
                       .kind = RecordKind::kSample});
  for (const int64_t i : ImportOrder(count, options)) {
    const auto& [frame, of_file] = taken[static_cast<size_t>(i)];
    const fs::path& file = frames.files()[frame];
    ImportItem item{.name = file.filename().string(), .file_bytes = of_file};
    item.read = [&file] { return ReadFile(file); };
    item.describe_sample = [&set, &tracked = boxes[frame]](const Image& image, SampleRecord& record,
                                                           RecordWarnings& warnings) {
      AddTracked(set, tracked, image, record, warnings);
    };
    writer.Add(std::move(item));
  }
  SampleSchema schema = NewSchema();
  if (!tracks.empty()) {
    schema.set_boxes(true);
    for (const std::string& name : set.labels) schema.add_box_class(name);
  }
  ImportReport report = writer.FinishSamples(schema);
  report.warnings.insert(report.warnings.end(), set.warnings.begin(), set.warnings.end());
  report.warnings.insert(report.warnings.end(), frames.warnings().begin(), frames.warnings().end());
  return report;
}

}  // namespace

SourceKind VideoSource() {
  return {.kind = "video",
          .parts = "FILE[,TRACKS[,EVERY]]",
          .makes = "pictures of a video, boxes of tracks",
          .least = 1,
          .most = 3,
          .import = ImportVideo};
}

}  // namespace moka

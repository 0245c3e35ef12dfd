// One net for all videos, a tracker for each. A picture that cannot be read is one in which nothing is seen, so that
// the numbers of those after it stay.
#include "tools/infer/track_video.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/tracks/track_file.h"
#include "tools/cli/print.h"
#include "tools/infer/avi_file.h"
#include "tools/infer/detected_boxes.h"
#include "tools/infer/frames.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/track/tracker.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// A box of a track, as small as its file's digits need: long videos have millions.
struct SeenBox {
  int32_t frame = 0;  // from 0
  std::array<float, 4> corners{};
  float score = 0;
};

struct SeenTrack {
  int32_t label = 0;
  std::vector<SeenBox> boxes;  // by frame
};

// The results of one video.
class TrackedVideo {
 public:
  TrackedVideo(const InferSource& source, std::string input, std::string name, const TrackerOptions& options,
               double fps)
      : source_(source),
        input_(std::move(input)),
        name_(std::move(name)),
        tracker_(options),
        fps_(fps),
        video_(name_ + ".avi", fps),
        mot_(name_ + ".txt") {}

  // The boxes of picture `frame`; pictures before it that were not added show nothing.
  void Add(int64_t frame, const fs::path& file, const Image& picture, const std::vector<ShownBox>& boxes) {
    PassTo(frame);
    if (width_ == 0) {
      width_ = picture.width;
      height_ = picture.height;
    }
    if (picture.width != width_ || picture.height != height_) {
      throw Error(ErrorKind::kBadData, StrCat(Printable(file.string()), " is ", picture.width, " x ", picture.height,
                                              ", the pictures before it ", width_, " x ", height_));
    }
    std::vector<DetectedBox> detections;
    for (const ShownBox& found : boxes) {
      const MarkBox& box = found.box;
      if (!(box.right > box.left && box.bottom > box.top)) continue;  // overlaps with nothing
      detections.push_back(
          {static_cast<int32_t>(found.label), {box.left, box.top, box.right, box.bottom}, found.score});
    }
    const std::vector<TrackedBox> tracked = tracker_.Next(detections);
    ++frames_;
    mot_.Append(MotLines(frame, tracked));
    for (const TrackedBox& one : tracked) {
      SeenTrack& track = tracks_[one.id];
      track.label = one.label;
      const PixelBox& box = one.box;
      track.boxes.push_back({static_cast<int32_t>(frame),
                             {static_cast<float>(box.xmin), static_cast<float>(box.ymin), static_cast<float>(box.xmax),
                              static_cast<float>(box.ymax)},
                             static_cast<float>(one.score)});
    }
    video_.Add(EncodeJpeg(Drawn(picture, tracked)), width_, height_);
  }

  // Writes the files. Returns what they hold, in short.
  PictureJson Finish(int64_t frames) {
    PassTo(frames);
    PictureJson json = {{"video", input_}, {"frames", frames}, {"width", width_}, {"height", height_}, {"fps", fps_}};
    const std::string head = json.dump(-1, ' ', false, PictureJson::error_handler_t::replace);
    AtomicFile all(name_ + ".json");
    all.Append(StrCat(std::string_view(head).substr(0, head.size() - 1), ",\"tracks\":["));
    PictureJson tracks = PictureJson::array();
    for (const auto& [id, track] : tracks_) {
      PictureJson about = {{"track", id}, {"label", NameOf(source_, track.label)}, {"index", track.label}};
      const std::string text = about.dump(-1, ' ', false, PictureJson::error_handler_t::replace);
      all.Append(StrCat(tracks.empty() ? "\n" : ",\n", std::string_view(text).substr(0, text.size() - 1),
                        ",\"boxes\":[", BoxesText(track), "]}"));
      about["first"] = track.boxes.front().frame + 1;
      about["last"] = track.boxes.back().frame + 1;
      about["boxes"] = track.boxes.size();
      tracks.push_back(std::move(about));
    }
    all.Append("\n]}\n");
    all.Place();
    mot_.Place();
    video_.Finish();
    json["tracks"] = tracks;
    json["files"] = {name_ + ".txt", name_ + ".json", name_ + ".avi"};
    return json;
  }

  void PrintTracks(int64_t frames) const {
    Print("{} -> {}.txt, .json, .avi: {} picture{}, {} track{}\n", input_, name_, frames, frames == 1 ? "" : "s",
          tracks_.size(), tracks_.size() == 1 ? "" : "s");
    for (const auto& [id, track] : tracks_) {
      Print("  {} - \"{}\" in pictures {} to {} ({} of {})\n", id, NameOf(source_, track.label),
            track.boxes.front().frame + 1, track.boxes.back().frame + 1, track.boxes.size(),
            track.boxes.back().frame - track.boxes.front().frame + 1);
    }
  }

 private:
  static std::string BoxesText(const SeenTrack& track) {
    std::string text;
    for (const SeenBox& box : track.boxes) {
      const auto& c = box.corners;
      text += fmt::format(R"({}{{"frame":{},"box":[{:.2f},{:.2f},{:.2f},{:.2f}],"score":{:.6f}}})",
                          text.empty() ? "" : ",", box.frame + 1, c[0], c[1], c[2], c[3], box.score);
    }
    return text;
  }

  void PassTo(int64_t frame) {
    for (; frames_ < frame; ++frames_) tracker_.Next({});
  }

  Image Drawn(Image picture, const std::vector<TrackedBox>& tracked) const {
    if (picture.channels != 3) ConvertChannels(3, picture);
    for (const TrackedBox& one : tracked) {
      const MarkBox box{one.box.xmin, one.box.ymin, one.box.xmax, one.box.ymax};
      DrawBox(box, ColorOf(one.id), picture.width >= 400 ? 2 : 1, picture);
      const WordStyle style{.scale = 0.4, .has_ground = true, .ground = ColorOf(one.id)};
      const std::string words = fmt::format("{} {}", one.id, NameOf(source_, one.label));
      DrawWords(words, std::lround(box.left), std::lround(box.top) - SizeOfWords(words, style).height, style, picture);
    }
    return picture;
  }

  const InferSource& source_;
  std::string input_;
  std::string name_;  // of the files, without endings
  BoxTracker tracker_;
  double fps_;
  AviWriter video_;
  int64_t frames_ = 0;
  int64_t width_ = 0;
  int64_t height_ = 0;
  AtomicFile mot_;
  std::map<int64_t, SeenTrack> tracks_;
};

// Errors: kUsage for what is neither a video nor a folder.
void CheckVideos(const std::vector<std::string>& inputs, const Arguments& arguments) {
  if (arguments.Has("annotate")) {
    throw Error(ErrorKind::kUsage, {}, "--annotate is of single pictures and --track of videos", "keep one of them");
  }
  if (inputs.empty() && !LooksInside(arguments)) {
    throw Error(ErrorKind::kUsage, "missing argument: a video, or a folder of its pictures");
  }
  std::error_code code;
  for (const std::string& input : inputs) {
    if (fs::is_directory(input, code) || IsVideoName(input)) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("--track wants videos, and ", Printable(input), " is none by its name"),
                "give a folder of the video's pictures, which are followed in the order of their names");
  }
}

// The rate of a video's pictures: as it is given, else the file's own.
double RateOf(const std::string& input, std::optional<double> given) {
  constexpr double kUsual = 25;
  if (given) return *given;
  const double own = FrameRateOfAvi(input);
  if (own > 0) return own;
  LogInfo(StrCat(Printable(input), " does not say its rate here: the drawn video has ", kUsual,
                 " pictures a second (--fps)"));
  return kUsual;
}

}  // namespace

int TrackVideos(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  CheckVideos(inputs, arguments);
  TrackerOptions options;
  options.high = arguments.Number("score", options.high, 0, 1);
  options.low = std::min(options.low, options.high);
  std::optional<double> rate;
  if (arguments.Has("fps")) rate = arguments.Number("fps", 0, 0.001, 10000);
  PictureNet net(source, arguments.Int("batch", 1, 1, 65536));
  const Tensor rows = net.output(RowsOutput(net));
  RefuseUnreadBeforeLook(arguments, {"out", "json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  OutFolder out(arguments.Get("out", "tracks"));
  PictureReport report(arguments);
  int code = 0;
  size_t pictures = 0;
  for (const std::string& input : inputs) {
    const std::vector<fs::path> files = PicturesOf({input});
    const fs::path named = fs::path(input).has_filename() ? fs::path(input) : fs::path(input).parent_path();
    TrackedVideo video(source, input, out.NameFor(named), options, RateOf(input, rate));
    std::map<fs::path, int64_t> numbers;
    for (const fs::path& file : files) numbers.emplace(file, std::ssize(numbers));
    const FilesSeen done = ForEachPicture(net, files, [&](const fs::path& file, const Image& picture, int64_t slot) {
      video.Add(numbers.at(file), file, picture, BoxesOf(rows, slot, options.low, picture, net.shown(slot)));
    });
    if (code == 0) code = done.code;
    pictures += done.files.size();
    PictureJson json = video.Finish(std::ssize(files));
    report.as_json() ? report.Add(std::move(json)) : video.PrintTracks(std::ssize(files));
  }
  report.Finish(pictures, -1);
  return code;
}

}  // namespace moka

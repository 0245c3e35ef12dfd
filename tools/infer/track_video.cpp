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
#include "tools/infer/detected_boxes.h"
#include "tools/infer/drawn_video.h"
#include "tools/infer/frames.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/place_report.h"
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

struct TrackSettings {
  TrackerOptions tracker;
  std::vector<CountLine> lines;
  std::vector<CountZone> zones;
  DrawnFormat drawn = DrawnFormat::kNone;
  std::optional<double> fps = {};  // nothing: as the videos say
};

// The pictures of an input and their times.
struct TrackInput {
  std::string input;
  VideoPictures pictures;
  double fps = 0;  // of the drawn video, where it has one rate
};

// The results of one video.
class TrackedVideo {
 public:
  TrackedVideo(const InferSource& source, const TrackInput& video, std::string name, const TrackSettings& settings)
      : source_(source),
        input_(video.input),
        times_s_(video.pictures.times_s),
        name_(std::move(name)),
        tracker_(settings.tracker),
        places_(settings.lines, settings.zones),
        fps_(video.fps),
        video_(name_, settings.drawn, video.fps),
        mot_(name_ + ".txt") {}

  // The boxes of picture `frame`; pictures before it that were not added show nothing.
  void Add(int64_t frame, const fs::path& file, const Image& picture, const std::vector<ShownBox>& boxes) {
    PassTo(frame);
    if (width_ == 0) {
      width_ = picture.width;
      height_ = picture.height;
      CheckPlaces(places_, width_, height_);
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
    places_.Add(frame, tracked);
    if (video_.is_drawn()) video_.Add(Drawn(picture, tracked), times_s_[static_cast<size_t>(frame)]);
  }

  // Writes the files. Returns what they hold, in short.
  PictureJson Finish() {
    const auto frames = std::ssize(times_s_);
    PassTo(frames);
    PictureJson json = {{"video", input_}, {"frames", frames}, {"width", width_}, {"height", height_}, {"fps", fps_}};
    AddPlaces(places_, source_, times_s_, json);
    const std::string head = json.dump(-1, ' ', false, PictureJson::error_handler_t::replace);
    AtomicFile all(name_ + ".json");
    all.Append(
        StrCat(std::string_view(head).substr(0, head.size() - 1), ",\n\"times_s\":[", TimesText(), "],\n\"tracks\":["));
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
    json["files"] = {name_ + ".txt", name_ + ".json"};
    if (!video_.file().empty()) json["files"].push_back(video_.file());
    return json;
  }

  void PrintTracks() const {
    const std::string drawn = video_.file().empty() ? "" : StrCat(", ", fs::path(video_.file()).extension().string());
    Print("{} -> {}.txt, .json{}: {}, {}\n", input_, name_, drawn, Counted(std::ssize(times_s_), "picture", "pictures"),
          Counted(std::ssize(tracks_), "track", "tracks"));
    for (const auto& [id, track] : tracks_) {
      Print("  {} - \"{}\" in pictures {} to {} ({} of {})\n", id, NameOf(source_, track.label),
            track.boxes.front().frame + 1, track.boxes.back().frame + 1, track.boxes.size(),
            track.boxes.back().frame - track.boxes.front().frame + 1);
    }
    PrintPlaces(places_);
  }

 private:
  std::string TimesText() const {
    std::string text;
    for (const double time_s : times_s_) text += fmt::format("{}{:.6f}", text.empty() ? "" : ",", time_s);
    return text;
  }
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
    DrawPlaces(places_, picture);
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
  std::vector<double> times_s_;  // of all pictures
  std::string name_;             // of the files, without endings
  BoxTracker tracker_;
  PlaceCounter places_;
  double fps_;
  DrawnVideo video_;
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

TrackSettings SettingsOf(const Arguments& arguments) {
  TrackSettings settings;
  TrackerOptions& tracker = settings.tracker;
  tracker.high = arguments.Number("score", tracker.high, 0, 1);
  tracker.low = std::min(tracker.low, tracker.high);
  if (arguments.Has("fps")) settings.fps = arguments.Number("fps", 0, 0.001, 10000);
  if (arguments.Has("line")) settings.lines = LinesOfText(arguments.Get("line"));
  if (arguments.Has("zone")) settings.zones = ZonesOfText(arguments.Get("zone"));
  settings.drawn = arguments.Has("drawn") ? DrawnFormatNamed(arguments.Get("drawn")) : UsualDrawnFormat();
  return settings;
}

// Pictures a second, on average.
double MeanRate(const std::vector<double>& times_s) {
  return static_cast<double>(times_s.size() - 1) / (times_s.back() - times_s.front());
}

TrackInput InputOf(const std::string& input, const std::optional<double>& fps) {
  constexpr double kUsual = 25;
  TrackInput read{.input = input, .pictures = VideoPicturesOf(input)};
  VideoPictures& pictures = read.pictures;
  const bool has_times = pictures.times_s.size() > 1;
  if (!has_times && !fps) {
    LogInfo(StrCat(Printable(input), " does not say its rate here: it is taken to have ", kUsual,
                   " pictures a second (--fps)"));
  }
  if (!has_times || fps) {
    read.fps = fps.value_or(kUsual);
    pictures = AtRate(pictures, read.fps);
  } else {
    read.fps = MeanRate(pictures.times_s);
  }
  return read;
}

}  // namespace

int TrackVideos(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  CheckVideos(inputs, arguments);
  const TrackSettings settings = SettingsOf(arguments);
  PictureNet net(source, arguments.Int("batch", 1, 1, 65536));
  const Tensor rows = net.output(RowsOutput(net));
  RefuseUnreadBeforeLook(arguments, {"out", "json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  OutFolder out(arguments.Get("out", "tracks"));
  PictureReport report(arguments);
  int code = 0;
  size_t pictures = 0;
  for (const std::string& input : inputs) {
    const TrackInput read = InputOf(input, settings.fps);
    const std::vector<fs::path>& files = read.pictures.files;
    const fs::path named = fs::path(input).has_filename() ? fs::path(input) : fs::path(input).parent_path();
    TrackedVideo video(source, read, out.NameFor(named), settings);
    std::map<fs::path, int64_t> numbers;
    for (const fs::path& file : files) numbers.emplace(file, std::ssize(numbers));
    const FilesSeen done = ForEachPicture(net, files, [&](const fs::path& file, const Image& picture, int64_t slot) {
      const std::vector<ShownBox> boxes = BoxesOf(rows, slot, settings.tracker.low, picture, net.shown(slot));
      video.Add(numbers.at(file), file, picture, boxes);
    });
    if (code == 0) code = done.code;
    pictures += done.files.size();
    PictureJson json = video.Finish();
    report.as_json() ? report.Add(std::move(json)) : video.PrintTracks();
  }
  report.Finish(pictures, -1);
  return code;
}

}  // namespace moka

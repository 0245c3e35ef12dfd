// An MP4's pictures are kept as files in a folder beside it and given to ffmpeg as a list with durations ("concat"),
// which it encodes by x264, the usual H.264 encoder of its packages.
#include "tools/infer/drawn_video.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tools/infer/frames.h"

namespace moka {

namespace fs = std::filesystem;

DrawnFormat DrawnFormatNamed(std::string_view text) {
  if (text == "none") return DrawnFormat::kNone;
  if (text == "avi") return DrawnFormat::kAvi;
  if (text == "mp4") return DrawnFormat::kMp4;
  throw Error(ErrorKind::kUsage, StrCat("--drawn is \"", Printable(text), "\", expected mp4, avi or none"));
}

DrawnFormat UsualDrawnFormat() { return HasFfmpeg() ? DrawnFormat::kMp4 : DrawnFormat::kAvi; }

DrawnVideo::DrawnVideo(const std::string& name, DrawnFormat format, double fps) : format_(format), fps_(fps) {
  if (format == DrawnFormat::kAvi) {
    file_ = name + ".avi";
    avi_ = std::make_unique<AviWriter>(file_, fps);
  } else if (format == DrawnFormat::kMp4) {
    file_ = name + ".mp4";
    folder_ = name + ".mp4.pictures";
    fs::remove_all(folder_);  // of a program that was killed
    CreateFolders(folder_);
  }
}

DrawnVideo::~DrawnVideo() { RemovePictures(); }

void DrawnVideo::RemovePictures() const {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

fs::path DrawnVideo::PictureFile(size_t number) const { return folder_ / fmt::format("{:08}.jpg", number); }

void DrawnVideo::AddToAvi(const std::string& jpeg, const Image& picture, double time_s) {
  const int64_t tick = std::llround(time_s * fps_);
  for (; ticks_ > 0 && ticks_ < tick; ++ticks_) avi_->AddRepeat();
  avi_->Add(jpeg, picture.width, picture.height);
  ++ticks_;
}

void DrawnVideo::Add(const Image& picture, double time_s) {
  if (!is_drawn()) return;
  const std::string jpeg = EncodeJpeg(picture);
  if (avi_) return AddToAvi(jpeg, picture, time_s);
  times_s_.push_back(time_s);
  PlaceFile(PictureFile(times_s_.size()), jpeg);
}

void DrawnVideo::Encode() const {
  // (x264 would take that rate for the video's, and ask players for a level beyond them.)
  // Each file by itself is a video of its own rate, in whose units its time would be rounded, and a name with a % would
  // stand for many files.
  constexpr const char* kOptions = "option framerate 90000\noption pattern_type none";
  std::string list = "ffconcat version 1.0\n";
  const auto micros = [](double seconds) { return std::llround(seconds * 1e6); };
  double duration_s = 1 / fps_;
  for (size_t i = 0; i < times_s_.size(); ++i) {
    // Differences of rounded times do not add up to an error; the last picture stands as long as the one before it.
    if (i + 1 < times_s_.size()) {
      duration_s = static_cast<double>(micros(times_s_[i + 1]) - micros(times_s_[i])) * 1e-6;
    }
    list +=
        fmt::format("file '{}'\n{}\nduration {:.6f}\n", PictureFile(i + 1).filename().string(), kOptions, duration_s);
  }
  const fs::path pictures = folder_ / "list.ffconcat";
  PlaceFile(pictures, list);
  const fs::path made = folder_ / "made.mp4";
  const std::string last =
      fmt::format("setts=duration=if(eq(N\\,{})\\,{:.6f}/TB\\,DURATION)", times_s_.size() - 1, duration_s);
  std::vector<std::string> words = Split("-f concat -safe 0 -i", ' ');
  words.push_back(StrCat("file:", pictures.string()));
  const std::string encoding =
      "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2 -pix_fmt yuv420p -c:v libx264 -preset veryfast -crf 20 -bf 0 "
      "-x264-params fps=25 -fps_mode passthrough -enc_time_base 1:90000 -video_track_timescale 90000 -movflags "
      "+faststart";
  for (const std::string& word : Split(encoding, ' ')) words.push_back(word);
  words.insert(words.end(), {"-bsf:v", last, "-f", "mp4", "-y", StrCat("file:", made.string())});
  const std::string failure = RunFfmpeg(words).failure;
  if (!failure.empty()) {
    throw Error(ErrorKind::kUnavailable, {}, StrCat(Printable(file_), " cannot be made: ffmpeg: ", failure),
                "--drawn avi needs no other program");
  }
  std::error_code code;
  fs::rename(made, file_, code);
  if (code) throw Error(ErrorKind::kCantCreate, StrCat("cannot make ", Printable(file_), ": ", code.message()));
}

void DrawnVideo::Finish() {
  if (avi_) avi_->Finish();
  if (format_ == DrawnFormat::kMp4 && !times_s_.empty()) Encode();
  RemovePictures();
}

}  // namespace moka

// Motion JPEG in AVI is unpacked here, chunk by chunk, without decoding; other videos are handed to ffmpeg, if it is
// installed.
#include "tools/infer/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/text.h"
#include "data/image/image.h"
#include "tools/launch/child.h"
#include "tools/track/avi_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kVideoEndings = {".avi", ".mp4", ".mov",  ".mkv", ".webm",
                                                           ".m4v", ".mpg", ".mpeg", ".wmv"};
constexpr double kLongestRun_s = 24 * 3600;
constexpr int kFfmpegNotStarted = 127;

std::string FrameStem(const fs::path& video, size_t number) {
  return fmt::format("{}_{:06}", video.stem().string(), number);
}

// The data chunks of an AVI (RIFF; Microsoft's "AVI RIFF File Reference"). Lists are stepped into, all else is stepped
// over, so pieces of files above 1 GB (RIFF "AVIX") and "rec " lists need no rule of their own.
class AviReader {
 public:
  // Errors: kNoInput.
  explicit AviReader(const fs::path& path) : path_(path), file_(OpenFile::ForReading(path)), left_(file_.bytes()) {}

  bool IsAvi() {
    std::string head(kRiffHead, '\0');
    return Read(head.data(), kRiffHead) == kRiffHead && head.starts_with("RIFF") && head.ends_with("AVI ");
  }

  // The next picture's bytes; none at the end. A picture of no bytes (the one before stands) is passed over.
  std::optional<std::string> Next() {
    while (const std::optional<Chunk> chunk = NextChunk()) {
      if (chunk->bytes > left_) {
        LogWarning(StrCat(Printable(path_.string()), " ends within a picture"));
        return std::nullopt;
      }
      // "00dc": compressed picture of stream 0; "db" is an uncompressed one.
      const bool is_picture = chunk->id.ends_with("dc") || chunk->id.ends_with("db");
      if (is_picture && chunk->bytes > kFileLimitBytes) {
        throw Error(ErrorKind::kBadData,
                    StrCat(Printable(path_.string()), " has a picture of ", BytesText(chunk->bytes),
                           ", more than the limit of ", BytesText(kFileLimitBytes)));
      }
      passed_ += is_picture ? 1 : 0;
      if (is_picture && chunk->bytes > 0) {
        std::string bytes(static_cast<size_t>(chunk->bytes), '\0');
        bytes.resize(static_cast<size_t>(Read(bytes.data(), chunk->bytes)));
        Skip(chunk->bytes % 2);
        return bytes;
      }
      Skip(chunk->bytes + chunk->bytes % 2);
    }
    return std::nullopt;
  }

  // The pictures before the one that Next() gave last, those of no bytes among them.
  int64_t passed() const { return passed_ - 1; }

 private:
  static constexpr int64_t kRiffHead = 12;  // "RIFF", size, "AVI "
  static constexpr int64_t kChunkHead = 8;  // name, size

  struct Chunk {
    std::string id;
    int64_t bytes = 0;
  };

  std::optional<Chunk> NextChunk() {
    while (left_ >= kChunkHead) {
      std::array<char, kChunkHead> head{};
      if (Read(head.data(), kChunkHead) < kChunkHead) break;
      const std::string id(head.data(), 4);
      if (!std::ranges::all_of(id, [](unsigned char c) { return std::isprint(c) != 0; })) break;  // no chunk of a RIFF
      int64_t bytes = 0;
      for (size_t i = 8; i > 4; --i) bytes = bytes << 8U | static_cast<unsigned char>(head.at(i - 1));
      if (id != "LIST" && id != "RIFF") return Chunk{id, bytes};
      Skip(4);  // its type; what it holds comes next
    }
    return std::nullopt;
  }

  // How many bytes there were; none are left where the file turned out shorter than it was.
  int64_t Read(char* data, int64_t bytes) {
    const int64_t got = file_.ReadAt(file_.bytes() - left_, data, bytes, path_);
    left_ = got < bytes ? 0 : left_ - bytes;
    return got;
  }
  void Skip(int64_t bytes) { left_ -= std::min(bytes, left_); }

  fs::path path_;
  OpenFile file_;
  int64_t passed_ = 0;
  int64_t left_ = 0;  // bytes of the file that were not looked at
};

bool IsJpegPicture(std::string_view bytes) { return bytes.starts_with("\xFF\xD8"); }

// None when the video is no AVI of motion JPEG.
VideoPictures PicturesOfAvi(const fs::path& video, const fs::path& folder) {
  AviReader reader(video);
  VideoPictures pictures;
  if (!reader.IsAvi()) return pictures;
  const double fps = FrameRateOfAvi(video);
  while (const std::optional<std::string> picture = reader.Next()) {
    if (!IsJpegPicture(*picture) && pictures.files.empty()) return pictures;
    pictures.files.push_back(folder / (FrameStem(video, pictures.files.size() + 1) + ".jpg"));
    PlaceFile(pictures.files.back(), *picture);
    if (fps > 0) pictures.times_s.push_back(static_cast<double>(reader.passed()) / fps);
  }
  return pictures;
}

// Reads a whole number that ends with a comma or the line.
std::optional<int64_t> WholeIn(std::string_view cell) {
  cell = Trim(cell);
  int64_t value = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || read.ec != std::errc() || read.ptr != cell.data() + cell.size()) return {};
  return value;
}

// The times of ffmpeg's format "framecrc": a line "#tb 0: 1/12800", in whose units are the third numbers of lines "0,
// decoded, shown, ..". None where they do not ascend.
std::vector<double> TimesOf(const std::string& text) {
  constexpr std::string_view kUnit = "#tb 0: ";
  double unit_s = 0;
  std::vector<double> times_s;
  int64_t first = 0;
  for (const std::string& line : Split(text, '\n')) {
    if (line.starts_with(kUnit)) {
      const std::vector<std::string> parts = Split(line.substr(kUnit.size()), '/');
      const std::optional<int64_t> over = WholeIn(parts[0]);
      const std::optional<int64_t> under = parts.size() == 2 ? WholeIn(parts[1]) : std::nullopt;
      if (over && under && *under > 0) unit_s = static_cast<double>(*over) / static_cast<double>(*under);
    }
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string> cells = Split(line, ',');
    const std::optional<int64_t> shown = cells.size() > 2 ? WholeIn(cells[2]) : std::nullopt;
    if (!shown) return {};
    if (times_s.empty()) first = *shown;
    const double time_s = (static_cast<double>(*shown) - static_cast<double>(first)) * unit_s;
    if (!times_s.empty() && !(time_s > times_s.back())) return {};
    times_s.push_back(time_s);
  }
  return times_s;
}

VideoPictures DecodeByFfmpeg(const fs::path& video, const fs::path& folder) {
  // A stem may hold ffmpeg's %: pictures get a plain name first.
  const std::string pattern = (folder / "frame_%06d.png").string();
  for (const fs::path& left : ListFiles(folder, ".png")) {  // by a decoding that was stopped
    if (left.filename().string().starts_with("frame_")) fs::remove(left);
  }
  // "file:" keeps a name with a colon from being taken for a protocol. Both outputs have every picture once, whatever
  // its time, which the first one says in microseconds.
  std::vector<std::string> words = {"-i", StrCat("file:", video.string())};
  const std::string outputs =
      "-an -sn -dn -fps_mode passthrough -enc_time_base 1:1000000 -c:v wrapped_avframe -f framecrc pipe:1 "
      "-an -sn -dn -fps_mode passthrough -start_number 1 -y";
  for (const std::string& word : Split(outputs, ' ')) words.push_back(word);
  words.push_back(StrCat("file:", pattern));
  const FfmpegRun run = RunFfmpeg(words);
  if (run.is_missing) {
    throw Error(ErrorKind::kUnavailable, {},
                StrCat("the pictures of ", Printable(video.string()), " are decoded by ffmpeg, which is not installed"),
                "install it (package ffmpeg), or give an AVI of motion JPEG or a folder of pictures");
  }
  if (!run.failure.empty()) {
    throw Error(ErrorKind::kBadData, StrCat(Printable(video.string()), ": ffmpeg: ", run.failure));
  }
  VideoPictures pictures{.files = {}, .times_s = TimesOf(run.out)};
  std::vector<fs::path>& files = pictures.files;
  for (size_t i = 1;; ++i) {
    const fs::path made = folder / fmt::format("frame_{:06}.png", i);
    std::error_code code;
    if (!fs::exists(made, code)) break;
    files.push_back(folder / (FrameStem(video, i) + ".png"));
    fs::rename(made, files.back());
  }
  if (pictures.times_s.size() != files.size()) pictures.times_s.clear();
  return pictures;
}

}  // namespace

std::string_view PictureEndingOf(std::string_view bytes) {
  try {
    switch (ReadImageHeader(bytes).format) {
      case ImageHeader::Format::kJpeg: return ".jpg";
      case ImageHeader::Format::kPng: return ".png";
      case ImageHeader::Format::kBmp: return ".bmp";
      case ImageHeader::Format::kWebp: return ".webp";
      case ImageHeader::Format::kGif: return ".gif";
      case ImageHeader::Format::kTiff: return ".tif";
      case ImageHeader::Format::kPnm: return ".ppm";
      case ImageHeader::Format::kUnknown: break;
    }
  } catch (const Error&) {
    return {};
  }
  return {};
}

std::optional<fs::path> WritePictureBytes(std::string_view bytes, const fs::path& folder) {
  const std::string_view ending = PictureEndingOf(bytes);
  if (ending.empty()) return std::nullopt;
  CreateFolders(folder);
  const fs::path file = folder / StrCat("stdin", ending);
  PlaceFile(file, bytes);
  return file;
}

bool IsVideoName(std::string_view name) {
  const std::string lower = AsciiLower(name);
  return std::ranges::any_of(kVideoEndings, [&](std::string_view ending) { return lower.ends_with(ending); });
}

FfmpegRun RunFfmpeg(const std::vector<std::string>& words) {
  std::vector<std::string> command = {"ffmpeg", "-nostdin", "-loglevel", "error"};
  command.insert(command.end(), words.begin(), words.end());
  CommandOutput said = std::move(RunCommands({command}, kLongestRun_s)[0]);
  if (said.code == kFfmpegNotStarted) return {.out = {}, .failure = "it is not installed", .is_missing = true};
  if (said.code == 0) return {.out = std::move(said.out), .failure = {}};
  constexpr size_t kTold = 1000;
  const std::string told = Printable(Trim(said.err.substr(0, kTold)));
  return {.out = {}, .failure = told.empty() ? StrCat("exit code ", said.code) : told};
}

bool HasFfmpeg() { return !RunFfmpeg({"-version"}).is_missing; }

VideoPictures ReadVideo(const fs::path& video, const fs::path& folder) {
  std::error_code code;
  if (!fs::is_regular_file(video, code)) {
    throw Error(ErrorKind::kNoInput, StrCat("cannot open ", Printable(video.string()), ": no such file"));
  }
  CreateFolders(folder);
  VideoPictures pictures = PicturesOfAvi(video, folder);
  if (pictures.files.empty()) pictures = DecodeByFfmpeg(video, folder);
  if (pictures.files.empty()) {
    throw Error(ErrorKind::kBadData, StrCat(Printable(video.string()), " holds no pictures"));
  }
  LogInfo(StrCat(Printable(video.string()), ": ", pictures.files.size(), " pictures in ", Printable(folder.string())));
  return pictures;
}

std::vector<fs::path> WriteFrames(const fs::path& video, const fs::path& folder) {
  return ReadVideo(video, folder).files;
}

VideoPictures AtRate(const VideoPictures& video, double fps) {
  constexpr double kSlack_s = 1e-6;  // of times that are no binary fractions
  VideoPictures taken;
  for (size_t i = 0; i < video.files.size(); ++i) {
    double number = static_cast<double>(i);
    if (!video.times_s.empty()) {
      const std::vector<double>& times_s = video.times_s;
      number = std::max(0.0, std::ceil((times_s[i] - kSlack_s) * fps));
      // The last picture stands as long as the one before it.
      const double until_s = i + 1 < times_s.size() ? times_s[i + 1]
                             : i > 0                ? 2 * times_s[i] - times_s[i - 1]
                                                    : 1 / fps;
      if (number / fps >= until_s - kSlack_s) continue;
    }
    taken.files.push_back(video.files[i]);
    taken.times_s.push_back(number / fps);
  }
  return taken;
}

}  // namespace moka

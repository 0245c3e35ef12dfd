// Motion JPEG in AVI is unpacked here, chunk by chunk, without decoding; other videos are handed to ffmpeg, if it is
// installed.
#include "tools/infer/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/text.h"
#include "data/image/image.h"
#include "tools/launch/child.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kVideoEndings = {".avi", ".mp4", ".mov",  ".mkv", ".webm",
                                                           ".m4v", ".mpg", ".mpeg", ".wmv"};
constexpr double kLongestDecoding_s = 24 * 3600;
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
  int64_t left_ = 0;  // bytes of the file that were not looked at
};

bool IsJpegPicture(std::string_view bytes) { return bytes.starts_with("\xFF\xD8"); }

// None when the video is no AVI of motion JPEG.
std::vector<fs::path> PicturesOfAvi(const fs::path& video, const fs::path& folder) {
  AviReader reader(video);
  std::vector<fs::path> files;
  if (!reader.IsAvi()) return files;
  while (const std::optional<std::string> picture = reader.Next()) {
    if (!IsJpegPicture(*picture) && files.empty()) return files;
    files.push_back(folder / (FrameStem(video, files.size() + 1) + ".jpg"));
    PlaceFile(files.back(), *picture);
  }
  return files;
}

std::vector<fs::path> DecodeByFfmpeg(const fs::path& video, const fs::path& folder) {
  // A stem may hold ffmpeg's %: pictures get a plain name first.
  const std::string pattern = (folder / "frame_%06d.png").string();
  for (const fs::path& left : ListFiles(folder, ".png")) {  // by a decoding that was stopped
    if (left.filename().string().starts_with("frame_")) fs::remove(left);
  }
  // "file:" keeps a name with a colon from being taken for a protocol; every picture once, whatever its time.
  const std::vector<CommandOutput> said =
      RunCommands({{"ffmpeg", "-nostdin", "-loglevel", "error", "-i", StrCat("file:", video.string()), "-vsync", "0",
                    "-start_number", "1", "-y", StrCat("file:", pattern)}},
                  kLongestDecoding_s);
  if (said[0].code == kFfmpegNotStarted) {
    throw Error(ErrorKind::kUnavailable, {},
                StrCat("the pictures of ", Printable(video.string()), " are decoded by ffmpeg, which is not installed"),
                "install it (package ffmpeg), or give an AVI of motion JPEG or a folder of pictures");
  }
  if (said[0].code != 0) {
    throw Error(ErrorKind::kBadData,
                StrCat(Printable(video.string()), ": ffmpeg: ", Printable(Trim(said[0].err.substr(0, 1000)))));
  }
  std::vector<fs::path> files;
  for (size_t i = 1;; ++i) {
    const fs::path made = folder / fmt::format("frame_{:06}.png", i);
    std::error_code code;
    if (!fs::exists(made, code)) return files;
    files.push_back(folder / (FrameStem(video, i) + ".png"));
    fs::rename(made, files.back());
  }
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

std::vector<fs::path> WriteFrames(const fs::path& video, const fs::path& folder) {
  std::error_code code;
  if (!fs::is_regular_file(video, code)) {
    throw Error(ErrorKind::kNoInput, StrCat("cannot open ", Printable(video.string()), ": no such file"));
  }
  CreateFolders(folder);
  std::vector<fs::path> files = PicturesOfAvi(video, folder);
  if (files.empty()) files = DecodeByFfmpeg(video, folder);
  if (files.empty()) throw Error(ErrorKind::kBadData, StrCat(Printable(video.string()), " holds no pictures"));
  LogInfo(StrCat(Printable(video.string()), ": ", files.size(), " pictures in ", Printable(folder.string())));
  return files;
}

}  // namespace moka

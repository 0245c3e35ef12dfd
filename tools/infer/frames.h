// Makes files of pictures, for inference, from what is none: the pictures of a video, and one that came by standard
// input. Whatever runs on a folder of pictures then runs on them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Whether a name ends as those of videos do: .avi, .mp4, .mov, .mkv, .webm, .m4v, .mpg, .mpeg, .wmv, in capitals too.
bool IsVideoName(std::string_view name);

// Writes a video's pictures into the folder, which is made, as STEM_000001.jpg and so on, and returns them in their
// order. An AVI of motion JPEG (what many cameras and microscopes write) is taken apart here, each picture's bytes as
// they are; all else is given to the program ffmpeg, which writes .png files. An AVI that ends too early gives the
// pictures that are whole, with a warning. Errors: kNoInput, kBadData naming the video, kUnavailable when ffmpeg is
// needed and not there, kCantCreate.
std::vector<std::filesystem::path> WriteFrames(const std::filesystem::path& video, const std::filesystem::path& folder);

struct VideoPictures {
  std::vector<std::filesystem::path> files;
  std::vector<double> times_s = {};  // of each, ascending from 0; none: not known
};
// As WriteFrames, with the time stamps of the pictures. An AVI's pictures are as far apart as its header says, one of
// no bytes being time that passes; those that ffmpeg gives have the video's own, at whatever distance.
VideoPictures ReadVideo(const std::filesystem::path& video, const std::filesystem::path& folder);
// The pictures that are shown at 0, 1/fps, 2/fps .. seconds, each once, at those times. Where none are known, all of
// them are, so far apart. Requires: fps > 0.
VideoPictures AtRate(const VideoPictures& video, double fps);

// The output of the program ffmpeg, and what went wrong, if something did.
struct FfmpegRun {
  std::string out;
  std::string failure;
  bool is_missing = false;  // it is not installed
};
FfmpegRun RunFfmpeg(const std::vector<std::string>& words);
bool HasFfmpeg();

// The ending of a picture's file by its bytes: ".jpg", ".png" and so on; empty for what is no picture.
std::string_view PictureEndingOf(std::string_view bytes);

// The bytes of one picture as FOLDER/stdin.jpg (.png, ...); none when they are no picture. Errors: kCantCreate, kIo.
std::optional<std::filesystem::path> WritePictureBytes(std::string_view bytes, const std::filesystem::path& folder);

}  // namespace moka

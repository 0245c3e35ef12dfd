// Makes files of pictures, for inference, from what is none: the pictures of a video, and one that came by standard
// input. Whatever runs on a folder of pictures then runs on them.
#pragma once

#include <filesystem>
#include <optional>
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

// The ending of a picture's file by its bytes: ".jpg", ".png" and so on; empty for what is no picture.
std::string_view PictureEndingOf(std::string_view bytes);

// The bytes of one picture as FOLDER/stdin.jpg (.png, ...); none when they are no picture. Errors: kCantCreate, kIo.
std::optional<std::filesystem::path> WritePictureBytes(std::string_view bytes, const std::filesystem::path& folder);

}  // namespace moka

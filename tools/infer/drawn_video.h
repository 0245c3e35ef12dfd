// Videos that results are drawn on: H.264 in MP4 by the program ffmpeg, each picture at its own time, or motion JPEG in
// AVI, which needs no other program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/image.h"
#include "tools/track/avi_file.h"

namespace moka {

enum class DrawnFormat : uint8_t { kNone, kAvi, kMp4 };
// "none", "avi", "mp4". Errors: kUsage naming --drawn for any other text.
DrawnFormat DrawnFormatNamed(std::string_view text);
// MP4 where ffmpeg is installed, else AVI.
DrawnFormat UsualDrawnFormat();

class DrawnVideo {
 public:
  // Writes NAME.mp4 or NAME.avi. `fps`: pictures a second of an AVI, where a picture stands until the next one's time,
  // to one part in `fps` of a second. Errors: kCantCreate.
  DrawnVideo(const std::string& name, DrawnFormat format, double fps);
  DrawnVideo(const DrawnVideo&) = delete;
  DrawnVideo& operator=(const DrawnVideo&) = delete;
  ~DrawnVideo();

  // Whether pictures are wanted at all.
  bool is_drawn() const { return format_ != DrawnFormat::kNone; }
  // Times in seconds ascend. All pictures have one size; an MP4 gets a black row or column where a side is odd. Errors:
  // kIo, kCantCreate.
  void Add(const Image& picture, double time_s);
  // Writes the file, which is whole or absent; of no pictures there is none. Errors: kCantCreate, kIo; kUnavailable
  // where ffmpeg is not installed or has no H.264.
  void Finish();
  // Empty: none.
  const std::string& file() const { return file_; }

 private:
  std::filesystem::path PictureFile(size_t number) const;
  void AddToAvi(const std::string& jpeg, const Image& picture, double time_s);
  void Encode() const;
  void RemovePictures() const;

  DrawnFormat format_;
  std::string file_;
  double fps_;
  std::unique_ptr<AviWriter> avi_;
  int64_t ticks_ = 0;             // of the AVI so far
  std::filesystem::path folder_;  // of an MP4's pictures, until it is made
  std::vector<double> times_s_;
};

}  // namespace moka

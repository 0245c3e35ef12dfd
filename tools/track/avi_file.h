// Videos of motion JPEG in AVI files (RIFF; Microsoft's "AVI RIFF File Reference"), which every player shows.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace moka {

// Pictures a second that an AVI's header states; 0 for what is no AVI, or states none.
double FrameRateOfAvi(const std::filesystem::path& file);

// Pictures are kept in a file without a name until all are there, as the header counts them; memory holds their sizes.
class AviWriter {
 public:
  // Errors: kCantCreate.
  AviWriter(std::filesystem::path file, double fps);
  // A JPEG file of the size of all others. What no longer fits 2 GiB, AVI's limit, is left out, with a warning. Errors:
  // kIo.
  void Add(std::string_view jpeg, int64_t width, int64_t height);
  // The picture before stands for one more: a chunk of no bytes.
  void AddRepeat();
  // Writes the file, which is whole or absent. Errors: kCantCreate, kIo.
  void Finish();

 private:
  // Whether a chunk of so many bytes fits.
  bool HasRoom(int64_t bytes);
  void Keep(std::string_view picture);

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path file_;
  double fps_;
  std::unique_ptr<std::FILE, CloseFile> kept_;
  std::vector<uint32_t> sizes_;  // bytes of each picture
  int64_t bytes_ = 0;            // of them all, with their heads
  int64_t width_ = 0;
  int64_t height_ = 0;
  bool is_full_ = false;
};

}  // namespace moka

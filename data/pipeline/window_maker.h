// WindowData: windows of images for R-CNN. A batch is background windows, then foreground windows, each drawn at random
// from all of its kind; a window is cut with some context around it and warped to the crop size.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "data/pipeline/open_layers.h"
#include "data/pipeline/sample_maker.h"
#include "data/transform/pixel_mean.h"

namespace moka {

struct WindowOptions {
  std::filesystem::path source;
  std::filesystem::path base;  // where relative paths start
  std::string prefix;          // root_folder, put before each path as text
  uint64_t seed = 0;
  int64_t batch = 1;
  float fg_threshold = 0.5F;
  float bg_threshold = 0.5F;
  float fg_fraction = 0.25F;
  int64_t context_pad = 0;  // pixels of the crop
  bool is_square = false;   // the tightest square around the window is cut
  int64_t crop_size = 0;
  bool mirror = false;
  PixelMean mean;
  float scale = 1;
};

class WindowMaker final : public SampleMaker {
 public:
  // Reads the window file. Errors: kNoInput; kBadData at its line, or when a kind of window that batches need has none.
  explicit WindowMaker(WindowOptions options);
  // As many as there are windows: an epoch by name only, since windows are drawn.
  int64_t record_count() const override { return static_cast<int64_t>(kinds_[0].size() + kinds_[1].size()); }
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  struct Window {
    int64_t image = 0;
    int64_t label = 0;
    int64_t x1 = 0;
    int64_t y1 = 0;
    int64_t x2 = 0;  // inclusive
    int64_t y2 = 0;
    int line = 0;
  };
  // The window that is cut from the image, and where it lands in the crop; the rest of the crop is 0.
  struct Warp {
    ImageWindow cut;
    int64_t width = 0;
    int64_t height = 0;
    int64_t pad_x = 0;
    int64_t pad_y = 0;
  };

  void ReadWindows();
  void CheckKinds() const;
  Warp WarpOf(const Window& window, const Image& image, bool mirrored) const;
  void Write(const Image& picture, const Warp& warp, bool mirrored, std::span<float> out) const;

  WindowOptions options_;
  int64_t foreground_ = 0;  // of a batch
  std::vector<std::string> images_;
  std::array<std::vector<Window>, 2> kinds_;  // background, foreground
};

}  // namespace moka

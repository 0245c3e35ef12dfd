// Samples of layers for dense labels: an image and a label image, which go through the same steps.
//   read -> window -> resize -> random scale -> margin at the bottom and right -> crop -> mirror -> random changes
// The steps that a layer has, and their rules, are those of its fork: see the openers (pair_layers.cpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/pipeline/open_layers.h"
#include "data/pipeline/sample_maker.h"
#include "data/transform/pixel_mean.h"

namespace moka {

struct PairOptions {
  std::filesystem::path list;  // lines "image label"
  std::filesystem::path base;  // where relative paths start
  std::string prefix;          // root_folder, put before each path as text
  uint64_t seed = 0;

  enum class Label { kPicture, kNumber, kNone } label = Label::kPicture;  // what the list's second word is
  bool has_windows = false;                                               // "x1 y1 x2 y2" ends a line, inclusive
  ImageChannels channels = ImageChannels::kColor;
  int64_t height = 0;  // 0: as it is
  int64_t width = 0;
  int64_t label_divide = 1;  // the label image has this part of the sides
  Interpolation label_interpolation = Interpolation::kNearest;
  bool makes_edges = false;  // labels are 1 from 128 up, else 0
  int ignore_label = 255;    // of pixels beyond the image, and of images without a label

  std::vector<float> scale_factors;  // one is drawn for each image
  CropSize crop;
  enum class Small { kRefused, kPadded } small = Small::kRefused;  // images smaller than the crop
  enum class Place { kCenter, kRandom } place = Place::kCenter;
  bool mirror = false;
  PixelMean mean;
  enum class MeanOf { kImage, kCrop } mean_of = MeanOf::kImage;  // what a mean image is as large as
  float scale = 1;
  // TRAIN: random changes of both pictures, after the mirror. Requires: no mean image.
  TransformationParameter augment;
  Phase phase = TEST;
  int outside_label = 0;  // of label pixels that a change brings in from outside
  enum class Sizes { kResized, kOriginal } sizes = Sizes::kResized;  // what the third top tells
};

class PairMaker final : public SampleMaker {
 public:
  // Reads the list. Errors: kNoInput; kBadData at the list's line.
  explicit PairMaker(PairOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(pairs_.size()); }
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  // Label images [N,1,H,W], then heights and widths [N,1,1,2].
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  struct Pair {
    std::string image;
    std::string label;
    int number = 0;
    int line = 0;
    ImageWindow window = {};  // may reach beyond the image
  };
  struct Cut {  // of both images, in pixels of the image
    int64_t y = 0;
    int64_t x = 0;
    bool mirror = false;
  };

  Pair ReadPair(const ListLine& line) const;
  // Both images as they are before the crop; returns height and width for the third top.
  CropSize Load(const Pair& pair, SampleScratch& scratch) const;
  enum class Kind { kImage, kClasses, kEdges };  // of a picture's values
  void ReadPicture(const std::string& path, Kind kind, SampleScratch& scratch, Image& image) const;
  // Both pictures become what is cut, changed.
  void Augment(const SampleId& id, const Shape& shape, Cut& cut, SampleScratch& scratch) const;
  void Rescale(RandomStream& random, PictureScratch& scratch) const;
  void CheckMean(const Image& image, const Shape& sample) const;
  void WriteImage(const Image& image, const Cut& cut, const Shape& shape, std::span<float> out) const;
  void WriteLabel(const Image& label, const Cut& cut, const Shape& shape, std::span<float> out) const;
  CropSize LabelSize(const Shape& sample) const {
    return {sample[1] / options_.label_divide, sample[2] / options_.label_divide};
  }

  PairOptions options_;
  Augmenter augmenter_;
  std::vector<Pair> pairs_;
};

}  // namespace moka

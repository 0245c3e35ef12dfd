// Caffe's transform_param: from the pixels of one record to the floats of one sample, in one pass:
//   out[c,y,x] = (pixel[c, y+oy, x+ox] - mean) * scale / std,  x reversed when mirrored.
// Before that, Moka's own steps: resize_short, rand_resized_crop (TRAIN), pad. Random choices are a pure function of
// (seed, epoch, record), so they depend on no thread. With transform_param.augment the crop is made as an 8-bit
// picture, changed (data/augment), then normalised.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "core/types.h"
#include "data/augment/augmenter.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/sample_id.h"
#include "data/stage_clock.h"
#include "proto/moka.pb.h"

namespace moka {

// In the sample's stream, after all that cutting one picture may draw.
inline constexpr uint64_t kMirrorPosition = 64;
// Whether a sample is mirrored where samples may be: a fair coin.
bool IsMirrored(uint64_t seed, const SampleId& id, uint64_t position = kMirrorPosition);

// The fault of a crop that is larger than a picture, with its field.
std::string CropFault(const TransformationParameter& param, int64_t height, int64_t width, int64_t of_height,
                      int64_t of_width);

// Scratch memory of one worker.
struct TransformScratch {
  Image resized;
  ResampleScratch resample;
  std::vector<float> factors;  // one a channel
  std::vector<float> summands;
  AugmentScratch augment;
};

// A mean image of shape [1,C,H,W] or [C,H,W] as [C,H,W], or one of clips, [1,C,frames,H,W], as [C,frames,H,W]. Errors:
// kNoInput, kBadData without a place, the path in them.
void ReadMeanImage(const std::filesystem::path& path, Shape& shape, std::vector<float>& values);

// The part of a picture that a decoder has opened, decoded at a size that does it no harm: where it is in `image`,
// which lasts until the decoder's next call. Errors: those of decoding.
struct DecodedPart {
  const Image* image = nullptr;
  ResamplePart part;
};
DecodedPart DecodePart(const ResamplePart& part, ImageDecoder& decoder);

// Errors: kBadData unless a record's sample [C,H,W] has the shape of the first one's; the hint names `size_fields`, or
// the fields of channels where nothing but these differ.
void CheckSampleShape(const Shape& found, const Shape& expected, std::string_view size_fields);

class Transform {
 public:
  // mean_file is looked for under base_folder. Errors: kConfig for fields that contradict each other, kNoInput and
  // kBadData for the mean file.
  Transform(const TransformationParameter& param, Phase phase, uint64_t seed, const std::filesystem::path& base_folder);

  ImageChannels channels() const { return channels_; }
  // As transform_param.force_color does.
  void ForceColor() { channels_ = ImageChannels::kColor; }
  const Shape& mean_shape() const { return mean_shape_; }
  // [C,H,W] of what Apply writes. Errors: kBadData when the crop or the mean does not fit the record.
  Shape OutputShape(const ImageSize& size) const;
  Shape OutputShape(const PixelView& pixels) const { return OutputShape(SizeOf(pixels)); }
  // Requires: out holds OutputShape(pixels).Count() floats. Allocates only when pixels must be resized.
  void Apply(const PixelView& pixels, const SampleId& id, TransformScratch& scratch, std::span<float> out) const;
  // Errors: kBadData when mean_value or std_value do not fit the record's channels.
  void CheckChannels(const ImageSize& size) const;

  // Whether it may look at a part of the picture only, resized: then the rest need not be decoded.
  bool takes_parts() const { return resizes_at_random() || param_.resize_short() > 0; }
  // Apply for the picture that a decoder has opened, which decodes what is needed; the clock is told when it has.
  // Requires: takes_parts().
  void ApplyOpened(const ImageSize& size, ImageDecoder& decoder, const SampleId& id, StageClock& clock,
                   TransformScratch& scratch, std::span<float> out) const;

  // The steps one by one, for samples in which more than a picture is cut and changed.
  //
  // Returns the part that a record of this size is resampled from, if nothing else is to be done but to normalise; none
  // with padding or a mean image.
  std::optional<ResamplePart> PartOf(const ImageSize& size, const SampleId& id) const;
  bool mirrors(const SampleId& id) const { return param_.mirror() && IsMirrored(seed_, id); }
  const Augmenter& augmenter() const { return augmenter_; }
  // Returns the part of a record of this size that the sample shows in the test phase, as fractions of the record;
  // beyond 0..1 where it is padded.
  ImageBox SeenOf(const ImageSize& size) const;
  // A picture that is cut and changed, to normalised floats. Requires: out holds as many as it has pixels' channels.
  // Errors: those of CheckChannels.
  void Normalize(const Image& picture, std::span<float> out) const;

 private:
  struct Place {  // where the crop's corner lies, in the padded image
    int64_t y = 0;
    int64_t x = 0;
  };
  bool resizes_at_random() const { return phase_ == TRAIN && param_.has_rand_resized_crop(); }
  void CheckFields() const;
  ImageWindow RandomWindow(const ImageSize& size, const SampleId& id) const;
  // The size after resize_short.
  ImageSize ResizedShort(const ImageSize& size) const;
  // Where the crop lies in a picture of this size.
  Place PlaceOf(const ImageSize& size, const SampleId& id) const;
  void WriteResampled(const PixelView& pixels, const ResamplePart& part, const SampleId& id, TransformScratch& scratch,
                      std::span<float> out) const;
  void WriteCropped(const PixelView& from, const SampleId& id, const Shape& shape, TransformScratch& scratch,
                    std::span<float> out) const;
  // The window as a picture of its own, changed, then normalised.
  void WriteChanged(const PixelView& from, const ImageWindow& window, const SampleId& id, TransformScratch& scratch,
                    std::span<float> out) const;
  void WriteAll(const PixelView& from, const Shape& shape, const Place& place, bool mirror, float* out) const;
  // The box, all of a picture of this size, as resize_short wants it, into the scratch.
  void ResizeWhole(const PixelView& pixels, const ImageBox& box, const ImageSize& size,
                   TransformScratch& scratch) const;
  float Mean(int64_t channel) const;
  float Factor(int64_t channel) const;
  template <class T, int kStep>
  void Write(const T* source, const PixelView& pixels, const Shape& shape, const Place& place, bool mirror,
             float* out) const;

  TransformationParameter param_;
  Phase phase_;
  uint64_t seed_;
  ImageChannels channels_ = ImageChannels::kAsStored;
  int64_t crop_height_ = 0;  // 0: no crop
  int64_t crop_width_ = 0;
  int64_t pad_ = 0;
  Shape mean_shape_;               // [C,H,W] of the mean image, rank 0: none
  std::vector<float> mean_image_;  // [C,H,W]
  Augmenter augmenter_;
};

}  // namespace moka

// One picture as a sample of a data layer's test phase: what `moka test` makes of a record, for a picture that lies in
// no database. The layer's own transforms do it, so that the same pixels give the same floats, bit for bit; only what a
// test draws at random (mirrors, distortions, expansions, samplers) is left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/types.h"
#include "data/image/image.h"
#include "data/stage_clock.h"
#include "data/transform/box_transform.h"
#include "data/transform/record_transform.h"
#include "data/transform/transform.h"
#include "proto/moka.pb.h"

namespace moka {

// How a layer's pictures come to their size before they are cut.
struct PictureSizing {
  int64_t height = 0;  // 0: as they are
  int64_t width = 0;
  Interpolation interpolation = Interpolation::kLinear;
};

// The size of a database's pictures, of which some are looked at: channels, or a size, are 0 where they differ.
struct StoredPictures : ImageSize {
  // Bounds that the import brought the pictures' sides to, as ImportOptions has them (min_dim, max_dim, short_side); 0:
  // none.
  int64_t min_side = 0;
  int64_t max_side = 0;
  int64_t short_side = 0;
  // Whether that is all that was done: the import says so.
  bool are_sides_known = false;
  bool HasSides() const { return min_side > 0 || max_side > 0 || short_side > 0; }
};

// Whether a layer reads a database, the pictures of which may be looked at.
bool HasRecords(const LayerParameter& layer);
// Whether the size of a database's records decides how a picture goes in: a crop is cut from them, and nothing else
// says their size.
bool NeedsRecordSize(const LayerParameter& layer);
// The same of that or their channels, where the layer makes others of them: a picture loses what the records lost.
bool NeedsRecords(const LayerParameter& layer);
// None if there is no database. Errors: kBadData, kNotAllowed.
std::optional<StoredPictures> StoredPicturesOf(const LayerParameter& layer, const std::filesystem::path& base_folder);
// The same as far as a PictureReader needs it: of a layer that needs no records only what their import says.
std::optional<StoredPictures> NeededPicturesOf(const LayerParameter& layer, const std::filesystem::path& base_folder);

// One thread.
class PictureReader {
 public:
  enum class Order { kBgr, kRgb };
  // `layer` is a data layer, or an Input layer with the fields of one (transform_param, image_data_param's sizes,
  // record_data_param); `sample` is the [C,H,W] of what it gives, `stored` what its database's pictures are, which is
  // looked at if nothing is given. Relative paths start at base_folder. Errors: kConfig
  // for fields that contradict each other and for a layer that makes other samples, those of the mean file.
  PictureReader(const LayerParameter& layer, const Shape& sample, const std::filesystem::path& base_folder,
                Order order = Order::kBgr, const std::optional<StoredPictures>& stored = {});

  // Decodes the bytes of a file, writes its sample and returns the picture as it was, upright. Requires: out holds the
  // sample. Errors: kBadData.
  Image Load(std::string_view file, std::span<float> out);
  // The same for a picture that is decoded already; its channels become the sample's.
  void Put(Image image, std::span<float> out);
  // A picture of the sample's size as it is: neither resized nor cut.
  void PutAsIs(Image image, std::span<float> out);

  // Returns the part of the last picture that the sample shows, as fractions of the picture: less than all where a crop
  // was cut, more where it lies on a canvas or is padded.
  const ImageBox& shown() const { return shown_; }
  // Returns the losses of the pictures that were loaded since the last call.
  ImageLosses TakeLosses() { return decoder_.TakeLosses(); }

 private:
  // The size of which the crop takes all, or of which the padding makes the sample's.
  ImageSize LeastSize() const;
  // Returns the shape that the layer makes of a picture of this size. Errors: kBadData for one that it cannot take.
  Shape ShapeOf(const ImageSize& size) const;
  bool Fits(const ImageSize& size) const;
  // The channels of the records where they are others than the sample's; else 0.
  int64_t OtherChannels(const ImageSize& stored) const;
  void CheckSample(const LayerParameter& layer) const;
  void TakeChannels(Image& image) const;
  // [height, width] that a picture has before the layer changes it.
  std::pair<int64_t, int64_t> ResizedOf(const Image& image) const;
  void Resize(int64_t height, int64_t width, Interpolation interpolation, Image& image);
  void Write(const Image& image, std::span<float> out);
  void WriteRecord(const ImageSize& size, std::span<float> out);
  ImageBox SeenOf(const ImageSize& size) const;
  PictureSizing SizingOf(const LayerParameter& layer, const StoredPictures& stored) const;

  Shape sample_;
  Order order_;
  int64_t stored_channels_ = 0;  // of the records, where they are others than the sample's; else 0
  int64_t pad_ = 0;
  int64_t crop_height_ = 0;  // 0: no crop
  int64_t crop_width_ = 0;
  PictureSizing sizing_;
  StoredPictures sides_;            // bounds of the sides where sizing_ says no size
  std::optional<Transform> plain_;  // of layers without boxes, and of what is written as it is
  std::optional<BoxTransform> boxes_;
  std::optional<RecordTransform> records_;
  ImageBox shown_{0, 0, 1, 1};
  ImageDecoder decoder_;
  StageClock clock_;
  TransformScratch scratch_;
  BoxScratch box_scratch_;
  RecordPictureScratch record_scratch_;
  Image sized_;
};

}  // namespace moka

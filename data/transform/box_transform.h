// The changes that SSD's AnnotatedData makes to an image and its boxes, in this order: distort colours, expand (the
// image on a larger canvas of the mean), cut a window the batch samplers chose (or, for YOLO, a jittered one), resize,
// crop and mirror, random changes (data/augment), then (pixel - mean) * scale / std. Boxes follow each step; those
// whose part that is left does not meet emit_constraint, or is empty, are dropped. Random choices are a pure function
// of (seed, epoch, record).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"
#include "core/types.h"
#include "data/augment/augmenter.h"
#include "data/image/cut.h"
#include "data/image/image.h"
#include "data/records/annotated_record.h"
#include "data/transform/box_sampler.h"
#include "data/transform/transform.h"
#include "proto/moka.pb.h"

namespace moka {

// Scratch memory of one worker; `image` and `annotations` hold the sample.
struct BoxScratch {
  Image image;
  Image other;
  AugmentScratch augment;
  std::vector<Annotated> annotations;
  std::vector<NormalBox> windows;
  // The changes made to the image, for a label image that goes with it.
  NormalBox window{0, 0, 1, 1};  // the part it was cut to
  bool is_mirrored = false;
};

// The pixels of an image that a window covers; none of a tiny image.
ImageWindow PixelsOf(const NormalBox& window, int64_t width, int64_t height);

class BoxTransform {
 public:
  // Errors: kConfig for fields that contradict each other or have no meaning with boxes.
  BoxTransform(const TransformationParameter& param, const AnnotatedDataParameter& sampling, Phase phase,
               uint64_t seed);

  ImageChannels channels() const { return channels_; }
  // As transform_param.force_color does.
  void ForceColor() { channels_ = ImageChannels::kColor; }
  // [C,H,W] of what Apply writes for an image of this size. Errors: kBadData when the crop does not fit.
  Shape OutputShape(const Image& image) const;
  // Returns the part of an image of this size that the sample shows in the test phase, as fractions of the image;
  // beyond 0..1 where it is padded.
  ImageBox SeenOf(int64_t height, int64_t width) const;
  // Changes scratch.image and scratch.annotations, which hold the record's. Requires: out holds
  // OutputShape(scratch.image).Count() floats.
  void Apply(const SampleId& id, BoxScratch& scratch, std::span<float> out) const;

 private:
  void CheckFields() const;
  bool Jitters() const;
  void Distort(RandomStream& random, BoxScratch& scratch) const;
  void Expand(RandomStream& random, BoxScratch& scratch) const;
  void Sample(RandomStream& random, BoxScratch& scratch) const;
  void Resize(RandomStream& random, BoxScratch& scratch) const;
  PictureCut Crop(RandomStream& random, BoxScratch& scratch) const;
  // The image becomes what is cut, changed.
  void Augment(const SampleId& id, PictureCut& cut, BoxScratch& scratch) const;
  void Write(const Image& image, const PictureCut& cut, std::span<float> out) const;
  // The boxes as fractions of the window, cut to it.
  void Project(const NormalBox& window, std::vector<Annotated>& annotations) const;
  bool IsEmitted(const NormalBox& window, const NormalBox& box) const;
  float Mean(int64_t channel) const;
  float Std(int64_t channel) const;

  TransformationParameter param_;
  AnnotatedDataParameter sampling_;
  Phase phase_;
  uint64_t seed_;
  ImageChannels channels_ = ImageChannels::kAsStored;
  int64_t crop_height_ = 0;  // 0: no crop
  int64_t crop_width_ = 0;
  Augmenter augmenter_;
};

}  // namespace moka

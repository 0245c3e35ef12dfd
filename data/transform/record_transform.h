// The changes that RecordData makes to a record's picture and to all that belongs to it: it is resized, cut and
// mirrored (Transform), then changed at random (data/augment); boxes, masks, instances and points follow each step.
// Random choices are a pure function of (seed, epoch, record).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/records/annotated_record.h"
#include "data/records/sample_record.h"
#include "data/stage_clock.h"
#include "data/transform/transform.h"

namespace moka {

// Scratch memory of one worker, and what is left of the record.
struct RecordPictureScratch {
  SampleRecord record;
  Image picture;
  Image mask;
  InstancePictures instances;
  std::vector<Annotated> boxes;  // instance_id: the record's box, from 1
  std::vector<KeyPoint> points;  // the record's, or of its first box, its second, ..
  Image other;
  std::vector<ImageWindow> bounds;  // of each instance's pixels
};

// Places of a picture [height, width], given as fractions of it, as fractions of what is cut out of it.
struct CutPlaces {
  ImageBox box;  // pixels
  bool mirror = false;
  double width = 0;
  double height = 0;
  float X(float x) const {
    const double at = (double{x} * width - box.x) / box.width;
    return static_cast<float>(mirror ? 1 - at : at);
  }
  float Y(float y) const { return static_cast<float>((double{y} * height - box.y) / box.height); }
};

class RecordTransform {
 public:
  struct Wanted {
    bool mask = false;
    bool instances = false;
    std::vector<int> mirrored_points = {};  // of the record or of each box; data/records/sample_record.h
    bool are_points_of_boxes = false;
  };
  // Errors: kConfig for fields that do not go with boxes and masks.
  RecordTransform(const LayerParameter& layer, Phase phase, uint64_t seed, Wanted wanted);

  // [C,H,W] of the data of a record that is in the scratch. Errors: kBadData.
  Shape OutputShape(const RecordPictureScratch& scratch, ImageDecoder& decoder) const;
  // Fills the rest of the scratch from its record and writes the picture. Errors: kBadData, too when the shape is
  // another.
  void Apply(const SampleId& id, const Shape& shape, ImageDecoder& decoder, StageClock& clock,
             TransformScratch& transform, RecordPictureScratch& scratch, std::span<float> data) const;

  // [C,H,W] of the data of a record whose picture has this size. Errors: kBadData when the crop or the mean does not
  // fit it.
  Shape ShapeOf(const ImageSize& size) const;
  // Returns the part of the picture that is resized, and the size that it comes to have.
  ResamplePart PartOf(const ImageSize& size, const SampleId& id) const;
  bool HasCanvas() const { return param_.canvas_height() > 0; }

 private:
  // The points of a picture, or of one of its boxes.
  void PlacePoints(const google::protobuf::RepeatedPtrField<SamplePoint>& points, const CutPlaces& places,
                   std::vector<KeyPoint>& out) const;
  ImageSize Open(const SampleRecord& record, ImageDecoder& decoder) const;
  void CutMasks(const ImageSize& size, const ResamplePart& part, bool mirror, ImageDecoder& decoder,
                RecordPictureScratch& scratch) const;
  // Puts the cut pictures on the canvas, if there is one, and returns what of the picture's pixels it then shows.
  ImageBox Extend(const ResamplePart& part, bool mirror, RecordPictureScratch& scratch) const;
  // Writes the record's boxes and points as fractions of what was cut; a box without points gets invisible ones.
  void PlaceFollowers(const ImageSize& size, const ImageBox& cut, bool mirror, RecordPictureScratch& scratch) const;
  void Change(const SampleId& id, AugmentScratch& augment, RecordPictureScratch& scratch) const;
  // A box that has a mask becomes the bounds of its pixels that no other instance hides; one without such pixels is
  // removed.
  static void TightenBoxes(RecordPictureScratch& scratch);
  // Boxes are cut to the picture; those of which too little is left go.
  void CutBoxes(std::vector<Annotated>& boxes) const;

  Transform transform_;
  RecordDataParameter param_;
  Wanted wanted_;
};

}  // namespace moka

// The random changes of transform_param.augment, made to the samples of one layer in TRAIN: the 8-bit picture after its
// crop, with the label picture, boxes and points that belong to it, and rectangles of the finished floats. What is
// drawn is a pure function of the seed, the epoch, the record and the change's place in the list, so it depends on no
// thread and on no other change. In TEST nothing happens.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/types.h"
#include "data/augment/geometry.h"
#include "data/augment/policy.h"
#include "data/image/image.h"
#include "data/records/annotated_record.h"
#include "data/sample_id.h"
#include "proto/moka.pb.h"

namespace moka {

// A place in a picture, as fractions of it; neither visible nor hidden once it has left the picture.
struct KeyPoint {
  float x = 0;
  float y = 0;
  bool is_visible = true;
  bool is_hidden = false;  // something covers it
  bool IsInside() const { return x >= 0 && x < 1 && y >= 0 && y < 1; }
  void Leave() { is_visible = is_hidden = false; }
};

// Labels of a picture's pixels, of its size, and the label of what comes from outside.
struct FollowingMask {
  Image* picture = nullptr;
  uint8_t outside = 0;
};

// The masks and boxes that follow the picture's changes of shape; null: nothing of that kind.
struct Followers {
  std::span<const FollowingMask> masks = {};
  // Each box becomes the bounds of what its border has become, beyond the picture too; then cut_boxes, which must be
  // set with boxes, cuts those and drops what is no longer there, after each change of shape.
  std::vector<Annotated>* boxes = nullptr;
  std::function<void()> cut_boxes = {};
  std::vector<KeyPoint>* points = nullptr;
};

// Scratch memory of one worker.
struct AugmentScratch {
  Image cut;
  Image other;
  Displacement field;
  std::vector<PolicyStep> steps;
};

class Augmenter {
 public:
  // Requires: CheckAugment found no fault with the fields.
  Augmenter(const TransformationParameter& param, Phase phase, uint64_t seed);

  bool changes_pictures() const { return !changes_.empty(); }
  // Errors: kBadData when a change needs colours and the picture is grey.
  void Change(const SampleId& id, Image& picture, const Followers& followers, AugmentScratch& scratch) const;
  // Erases parts of a finished sample [C,H,W].
  void Erase(const SampleId& id, const Shape& shape, std::span<float> sample) const;

 private:
  struct Listed {
    Augmentation change;
    int place = 0;  // in the list
  };
  RandomStream StreamFor(const SampleId& id, int place) const;

  uint64_t seed_;
  std::vector<Listed> changes_;
  std::vector<Listed> erasings_;
};

}  // namespace moka

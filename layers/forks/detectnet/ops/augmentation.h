// How DetectNet's transformation changes one image and its boxes: the row of numbers that "augment_choices" draws and
// the other ops follow. In order: hue (degrees), saturation (1: as it is), mirror (0 or 1), width and height to which
// the image is resized, rotation (degrees), and the crop's corner (x, y), which may lie outside.
#pragma once

#include <string_view>

#include "graph/op.h"

namespace moka {

inline constexpr int64_t kAugmentationColumns = 8;
inline constexpr int64_t kMaxAugmentedSide = 32768;  // of a resized image, pixels

struct PictureChange {
  float hue = 0;
  float saturation = 1;
  bool is_mirrored = false;
  int64_t width = 1;
  int64_t height = 1;
  float rotation = 0;
  int64_t crop_x = 0;
  int64_t crop_y = 0;

  // Smaller changes are none, as in NVIDIA's Caffe.
  bool turns_hue() const;
  bool fades() const;
  bool rotates() const;
};

// Row n of augmentations [N,8]; whatever the numbers are, the sizes are possible ones.
PictureChange AugmentationAt(const RefTensor& rows, int64_t n);
// Errors: kConfig unless the type is [images,8].
void CheckAugmentations(std::string_view op, const TensorType& type, int64_t images);

// Turns an image about its centre, clockwise on the screen for positive degrees, into one that holds all of it: a
// point p goes to R (p - centre) + moved.
struct Rotation {
  double cosine;
  double sine;
  double center_x;
  double center_y;
  double moved_x;
  double moved_y;
  int64_t width;  // of the result
  int64_t height;
};
Rotation RotationOf(int64_t width, int64_t height, float degrees);

}  // namespace moka

// Boxes out of a detection net's rows: what drawing, annotating and tracking begin with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "data/image/drawing.h"
#include "data/image/image.h"
#include "tools/infer/picture_net.h"

namespace moka {

struct ShownBox {
  int64_t label = 0;
  double score = 0;
  MarkBox box;  // pixels of the picture
};

// The output that holds DetectionOutput's rows [1,1,R,7]: item, class, score and corners as parts of the picture.
// Errors: kConfig.
std::string RowsOutput(const PictureNet& net);

// Returns the boxes found on the picture in a slot whose scores are `least` or more, the highest first; `shown` is the
// part of it that the net saw.
std::vector<ShownBox> BoxesOf(const Tensor& rows, int64_t slot, double least, const Image& picture,
                              const ImageBox& shown);

// Returns the scores of all that a net finds on the picture in a slot, however low, of rows of seven.
std::vector<double> AllScoresOf(const Tensor& rows, int64_t slot);

}  // namespace moka

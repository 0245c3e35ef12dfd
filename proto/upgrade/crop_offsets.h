// Layers of type AutoCrop: the crop of the FCN, HED and RCF forks, which aligns two maps of one picture by the windows
// between them (Long, Shelhamer, Darrell, arXiv 1411.4038), where BVLC Caffe's Crop is told an offset.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// Sets crop_param of the AutoCrop layers of a filtered net: axis 2, and the offsets along the height and the width at
// which pixels of the first bottom lie on those of the second. A layer that has a crop_param keeps it.
// A Crop without crop_param gets its defaults, axis 2 and offset 0, with a warning where they do not align.
// Errors: kConfig at the layer: bottoms of different origin or scale, an offset below 0 or between two pixels, a layer
// on the way that moves pixels in another manner than a window.
void SetCropOffsets(NetParameter& net);

}  // namespace moka

// The fields that the layers of this folder read alike: the anchors of a pyramid, the size of the images.
#pragma once

#include "layers/net/fields.h"

namespace moka {

// The attributes strides and anchors of an op over `levels` maps: around the first cell of each level, for each of its
// sizes a box of every ratio, of whole corners (as torchvision makes them).
// Errors: kConfig at the field where stride, size and ratio do not fit the maps or each other.
Attributes AnchorsOfPyramid(const LayerBuilder& l, int levels);

// The attributes height and width of the images in bottom 0 [N,C,H,W]. Errors: kConfig.
Attributes PicturesOfBottom0(const LayerBuilder& l);

// The attribute stds from a repeated field; 0.1, 0.1, 0.2, 0.2 where it is empty. Errors: kConfig.
Doubles StdsOfField(const LayerBuilder& l, const std::string& field,
                    const google::protobuf::RepeatedField<float>& values);

// A field from 0 to 1. Errors: kConfig.
double PartOfField(const LayerBuilder& l, const std::string& field, float value);

// Returns both together; of two of one name the one in `more` wins.
Attributes Together(Attributes attributes, const Attributes& more);

}  // namespace moka

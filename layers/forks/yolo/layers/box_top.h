// Shapes of pictures with boxes, which data layers have whose source is not there.
#pragma once

#include "layers/shapes/data_guess.h"

namespace moka {

// Boxes beside each picture, as annotated_data_param says them, after them a label image: PictureRules::top.
Shape BoxTop(const LayerParameter& layer, int top, const GuessedPicture& picture);

}  // namespace moka

// Shapes of pictures with a label image each, which data layers have whose source is not there.
#pragma once

#include "layers/shapes/data_guess.h"

namespace moka {

// A label image beside each picture, after it heights and widths: PictureRules::top.
Shape LabelImageTop(const LayerParameter& layer, int top, const GuessedPicture& picture);

GuessedTypes GuessLabelledImages(const LayerParameter& layer);

}  // namespace moka

// Checks of transform_param.augment and .mixing.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// Errors: kConfig at the field, where a layer of this type does not make these changes, or where a change is none or
// several at once, or its numbers have no meaning.
void CheckAugment(const LayerParameter& layer);

}  // namespace moka

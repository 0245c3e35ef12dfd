// Fillers with fixed values for kernels of images: Intel's Gabor filters, and the derivatives of the Caffe of Garg et
// al. (arXiv 1603.04992).
#pragma once

#include <span>
#include <string>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// Whether the type is one of them: EdgeX, EdgeY, Laplacian, LoG, gabor.
bool IsPatternFiller(const std::string& type);

// Why such a filler does not go with the shape; empty if it does.
std::string PatternFault(const FillerParameter& filler, const Shape& shape);

// Requires: IsPatternFiller, no fault, as many values as the shape has.
void FillPattern(const FillerParameter& filler, const Shape& shape, std::span<float> values);

}  // namespace moka

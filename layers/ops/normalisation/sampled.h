// The positions that batch normalisation makes where only strided convolutions read it: 0, stride, 2 stride, ..
#pragma once

#include <string_view>

#include "layers/ops/visit.h"

namespace moka {

inline AttributeSpec StrideSpec() {
  return {"stride", Ints{}, "y has every stride-th row and column of x [N,C,H,W] alone; none if empty"};
}

// [N,C,ceil(H/s),ceil(W/s)]; x's own shape without strides. Errors: kConfig unless x has two spatial axes, each with a
// stride of at least 1.
Shape SampledShape(std::string_view op, const Shape& x, const Ints& stride);

// The place, row-major in a sampled shape, of x's element at an index; -1 if it is left out.
int64_t SampledPlace(const Shape& sampled, const Index& index, const Ints& stride);

}  // namespace moka

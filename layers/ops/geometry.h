// Sliding windows over spatial dimensions: the arithmetic of convolution and pooling sizes, in one place.
#pragma once

#include <string_view>

#include "graph/attributes.h"
#include "graph/op.h"

namespace moka {

// One window a spatial dimension. Position o covers inputs o*stride - pad_begin + k*dilation for k in [0, kernel).
struct Geometry {
  Ints kernel;
  Ints stride;
  Ints pad_begin;
  Ints pad_end;
  Ints dilation;

  int rank() const { return static_cast<int>(kernel.size()); }
  // Elements of one window.
  int64_t WindowSize() const;
};

// The specifications of stride, pad_begin, pad_end, dilation, groups (convolution) and of kernel, stride, pad_begin,
// pad_end (pooling).
std::vector<AttributeSpec> ConvolutionAttributes();
std::vector<AttributeSpec> PoolAttributes();
// count_begin and count_end of average pooling.
std::vector<AttributeSpec> CountAttributes();
// The specification of one shape attribute (input_shape, weight_shape).
AttributeSpec ShapeSpec(std::string name, std::string doc);
// Lists joined.
std::vector<AttributeSpec> JoinSpecs(std::vector<std::vector<AttributeSpec>> lists);

// Reads and checks the attributes: one value a spatial dimension, kernel, stride, dilation >= 1, pads >= 0.
// Errors: kConfig with the values.
Geometry PoolGeometry(std::string_view op, const Attributes& attributes);
Geometry ConvolutionGeometry(std::string_view op, const Attributes& attributes, const Shape& w);

// floor((input + pad_begin + pad_end - (dilation*(kernel-1)+1)) / stride) + 1 along spatial dimension `axis`.
// Errors: kConfig when the window is larger than the padded input.
int64_t WindowPositions(std::string_view op, const Geometry& geometry, int axis, int64_t input);

// y [N,K,out..] of a convolution of x [N,C,in..] with w [K,C/groups,kernel..]; checks ranks, channels and groups.
Shape ConvolutionOutput(std::string_view op, const Attributes& attributes, const Shape& x, const Shape& w);
// Returns the shape that a transposed convolution gives: the smallest x [N,C,in..] whose convolution with w has the
// shape dy [N,K,out..], that is in = stride*(out-1) + dilation*(kernel-1)+1 - pad_begin - pad_end (Caffe's
// Deconvolution).
Shape DeconvolutionOutput(std::string_view op, const Attributes& attributes, const Shape& dy, const Shape& w);
// y [N,C,out..] of a pooling of x [N,C,in..]. Errors: also when a window would hold no element of x.
Shape PoolOutput(std::string_view op, const Attributes& attributes, const Shape& x);
// The dtype of max pooling's argmax: uint8 for windows of at most 255 elements, otherwise int32 (oneDNN's workspace).
DType ArgmaxType(const Geometry& geometry);

// Average pooling's divisor is the product over the axes of the window positions inside [-count_begin, input +
// count_end). Requires: CheckCounts passed, so that each is at least 1.
int64_t CountedPositions(const Geometry& geometry, const Attributes& attributes, int axis, int64_t input,
                         int64_t output);
// Errors: kConfig unless 0 <= count_begin <= pad_begin and 0 <= count_end <= pad_end.
void CheckCounts(std::string_view op, const Attributes& attributes, const Geometry& geometry);

// 2 * multiply-adds of a convolution with these shapes.
int64_t ConvolutionFlops(const Shape& w, const Shape& y);

}  // namespace moka

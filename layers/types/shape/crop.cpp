// The part of the first bottom that has the second's size from `axis` on, at an offset. AutoCrop's offset was found by
// SetCropOffsets when the net was filtered.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Elements [begin, begin + size) of an axis.
ValueId Cut(const GraphBuilder& b, ValueId x, int axis, int64_t begin, int64_t size) {
  const int64_t rest = b.shape(x)[axis] - begin - size;
  if (begin == 0 && rest == 0) return x;
  Ints sizes;
  if (begin > 0) sizes.push_back(begin);
  sizes.push_back(size);
  if (rest > 0) sizes.push_back(rest);
  return b.Add("slice", {x}, {{"axis", int64_t{axis}}, {"sizes", sizes}})[begin > 0 ? 1 : 0];
}

void BuildCrop(LayerBuilder& l) {
  const CropParameter& p = l.param().crop_param();
  const Shape x = l.shape(0);
  const Shape size = l.shape(1);
  const int axis = AxisOf(l, "crop_param.axis", p.axis(), x);
  l.Check(size.rank() >= x.rank(), "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" ", size.ToString(), " must have the ", x.rank(), " axes of \"",
                 l.param().bottom(0), "\" ", x.ToString()));
  const int offsets = p.offset_size();
  l.Check(offsets <= 1 || offsets == x.rank() - axis, "crop_param.offset",
          StrCat("crop_param.offset is given ", offsets, " times for the ", x.rank() - axis, " axes from ", axis,
                 " on; give one, or one an axis"));
  ValueId y = l.bottom(0);
  for (int i = axis; i < x.rank(); ++i) {
    const int64_t offset = offsets == 0 ? 0 : int64_t{p.offset(offsets == 1 ? 0 : i - axis)};
    l.Check(offset + size[i] <= x[i], "crop_param.offset",
            StrCat("axis ", i, " of \"", l.param().bottom(0), "\" ", x.ToString(), " has no ", size[i],
                   " elements from ", offset, " on"));
    y = Cut(l.b(), y, i, offset, size[i]);
  }
  l.SetTop(0, y);
}

}  // namespace

LayerDef CropLayer() {
  return {
      .type = "Crop",
      .doc =
          "The first bottom cut to the second's size along crop_param.axis (default 2) and all later axes, "
          "beginning at crop_param.offset (one for all, or one an axis; default 0). Only the second's shape is "
          "used.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildCrop,
      .page = {.params = {"crop_param"},
               .formula = "`y[.., i_k, ..] = x[.., i_k + offset_k, ..]` for every axis k from `axis` (default 2, "
                          "negative counts from the end) on; earlier axes are whole. The top has bottom 0's sizes "
                          "before `axis` and bottom 1's from there on. `offset` is one value for all these axes or one "
                          "an axis (default 0); offset + size must not exceed bottom 0's size, and bottom 1 has at "
                          "least as many axes as bottom 0.",
               .gradient = "`dx` is `dy` where x was taken and 0 elsewhere. None for bottom 1.",
               .source = "BVLC Caffe's crop_layer, from fully convolutional networks (Long, Shelhamer, Darrell, arXiv "
                         "1411.4038). Forks align the bottoms by themselves instead: see AutoCrop, which a `CROP` "
                         "of Caffe's first format without crop_param is read as.",
               .example =
                   R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 10 dim: 12 } } }
layer { name: "size" type: "Input" top: "size" input_param { shape { dim: 2 dim: 1 dim: 6 dim: 8 } } }
layer {
  name: "crop"
  type: "Crop"
  bottom: "x"
  bottom: "size"
  top: "crop"
  crop_param { axis: 2 offset: 2 offset: 3 }
})"}};
}

LayerDef AutoCropLayer() {
  return {
      .type = "AutoCrop",
      .doc =
          "The first bottom [N,C,H,W] cut to the second's height and width where the pixels of both lie on each "
          "other, by the windows (kernel, stride, pad, dilation) of the layers between them and the blob that both "
          "are made of. With a crop_param it is a Crop.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildCrop,
      .page = {
          .params = {"crop_param"},
          .formula =
              "A layer with a window maps pixel i of its bottom to pixel `(i + pad - dilation*(kernel-1)/2) / "
              "stride` of its top, a Deconvolution the other way round, a Crop to `i - offset`; pointwise layers, "
              "Concat, Eltwise, Slice, LRN, BatchNorm and the like keep pixels. The maps from the nearest blob that "
              "both bottoms are made of (through first bottoms) give bottom 1's pixel `i - offset` for bottom 0's "
              "pixel i, and `y[n,c,h,w] = x[n,c,h + offset_h,w + offset_w]`. An offset that is negative or no "
              "whole number, a scale other than 1, and layers on the way that move pixels otherwise are errors.",
          .gradient = "`dx` is `dy` where x was taken and 0 elsewhere. None for bottom 1.",
          .source = "The Crop of FCN's and HED's Caffe (Long, Shelhamer, Darrell, arXiv 1411.4038; Xie, Tu, arXiv "
                    "1504.06375), type CROP in Caffe's first format, and AutoCrop of RCF's (Liu et al., arXiv "
                    "1612.02103).",
          .example =
              R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 7 } } }
layer {
  name: "wide"
  type: "Convolution"
  bottom: "x"
  top: "wide"
  convolution_param { num_output: 2 kernel_size: 3 pad: 4 }
}
layer { name: "crop" type: "AutoCrop" bottom: "wide" bottom: "x" top: "crop" })"}};
}

}  // namespace moka

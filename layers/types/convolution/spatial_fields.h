// Fields with a value for each spatial axis, in the spellings that Caffe and its forks have for them.
#pragma once

#include <optional>
#include <string>

#include "layers/net/fields.h"

namespace moka {

constexpr int kMaxSpatial = 3;  // spatial axes of convolution and pooling

// One field: repeated, as x_h and x_w, as x_shape { dim: ... }, or (3 axes) with a field of its own for the depth.
struct SpatialField {
  std::string name;    // "convolution_param.kernel_size"
  std::string name_h;  // whichever of the _h and _w fields is given
  Ints values;
  std::optional<int64_t> h = {};
  std::optional<int64_t> w = {};
  Ints shape = {};
  std::optional<int64_t> depth = {};
  int64_t fallback = -1;  // when nothing is given; -1: must be given
  int64_t least = 1;
};

// A value for each of `spatial` axes. Errors: kConfig at the field (spellings mixed, counts, bounds).
Ints ReadSpatial(const LayerBuilder& l, const SpatialField& field, int spatial);

// Spatial axes of x [N,C,spatial..], which is bottom 0 or what a layer makes of it. Errors: kConfig at the bottom
// unless there are 1 to 3.
int SpatialAxes(const LayerBuilder& l, const Shape& x);

// The bottoms of a convolution as [N,C,spatial..]: convolution_param.axis says which axis the channels are, and all
// before it count the items.
class ChannelAxis {
 public:
  // Errors: kConfig at the axis if bottom 0 has none such.
  explicit ChannelAxis(const LayerBuilder& l);
  // Bottom 0 as [N,C,spatial..].
  const Shape& shape() const { return shape_; }
  // A bottom as shape(), and a top [N,K,spatial..] back with the bottom's axes before the channels.
  ValueId Fold(const LayerBuilder& l, ValueId bottom) const;
  ValueId Unfold(const LayerBuilder& l, ValueId top) const;

 private:
  Shape items_;  // the axes before the channels
  Shape shape_;
};

// The fields that the messages of convolution and pooling have in common.
struct WindowFields {
  Ints kernel;
  Ints stride;
  Ints pad;      // before the first element of each axis
  Ints pad_end;  // after the last: the same unless a side has a field of its own
};

// The values of a repeated field, or a BlobShape's dims.
template <class Values>
Ints IntsOf(const Values& values) {
  return Ints(values.begin(), values.end());
}

// kernel_size, stride and pad of ConvolutionParameter or PoolingParameter, whose path is `param`, for x
// [N,C,spatial..].
template <class Param>
WindowFields ReadWindow(const LayerBuilder& l, const Shape& x, const std::string& param, const Param& p,
                        bool has_kernel) {
  using Depth = std::optional<int64_t>;
  const int spatial = SpatialAxes(l, x);
  const auto field = [&](const char* name, bool has_h, int64_t h, bool has_w, int64_t w) {
    SpatialField made{.name = param + "." + name, .name_h = {}, .values = {}};
    made.name_h = made.name.substr(0, made.name.find("_size")) + (has_h ? "_h" : "_w");
    if (has_h) made.h = h;
    if (has_w) made.w = w;
    return made;
  };
  WindowFields window;
  const bool has_depth = p.has_kernel_depth();
  if (has_kernel) {
    SpatialField kernel = field("kernel_size", p.has_kernel_h(), p.kernel_h(), p.has_kernel_w(), p.kernel_w());
    kernel.values = IntsOf(p.kernel_size());
    kernel.shape = IntsOf(p.kernel_shape().dim());
    if (has_depth) kernel.depth = p.kernel_depth();
    window.kernel = ReadSpatial(l, kernel, spatial);
  }
  SpatialField stride = field("stride", p.has_stride_h(), p.stride_h(), p.has_stride_w(), p.stride_w());
  stride.values = IntsOf(p.stride());
  stride.shape = IntsOf(p.stride_shape().dim());
  stride.depth = has_depth ? Depth(p.temporal_stride()) : std::nullopt;
  stride.fallback = 1;
  window.stride = ReadSpatial(l, stride, spatial);
  SpatialField pad = field("pad", p.has_pad_h(), p.pad_h(), p.has_pad_w(), p.pad_w());
  pad.values = IntsOf(p.pad());
  pad.shape = IntsOf(p.pad_shape().dim());
  pad.depth = has_depth ? Depth(p.temporal_pad()) : std::nullopt;
  pad.fallback = 0;
  pad.least = 0;
  window.pad = window.pad_end = ReadSpatial(l, pad, spatial);
  if (p.has_pad_l() || p.has_pad_r() || p.has_pad_t() || p.has_pad_b()) {
    l.Check(spatial == 2 && pad.values.empty() && !pad.h && !pad.w, param + ".pad_l",
            "pad_l, pad_r, pad_t and pad_b are for 2 spatial axes, in place of pad");
    window.pad = {p.pad_t(), p.pad_l()};
    window.pad_end = {p.pad_b(), p.pad_r()};
  }
  return window;
}

}  // namespace moka

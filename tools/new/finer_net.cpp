// Strides are of one level where their layers see planes of one size: those of a block and of its shortcut go together.
#include "tools/new/finer_net.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "layers/net/net.h"

namespace moka {
namespace {

// The layers behind an input of this shape. Errors: those of BuildNet.
BuiltNet Built(const NetParameter& net, const std::string& input, const Shape& shape) {
  NetParameter whole;
  LayerParameter& first = *whole.add_layer();
  first.set_name(input);
  first.set_type("Input");
  first.add_top(input);
  BlobShape& dims = *first.mutable_input_param()->add_shape();
  for (int i = 0; i < shape.rank(); ++i) dims.add_dim(shape[i]);
  whole.mutable_layer()->MergeFrom(net.layer());
  NetOptions options;
  options.state.set_phase(TEST);
  options.tells_fields = false;
  return BuildNet(whole, options);
}

// 0: not said; -1: not the same along all axes.
int64_t AlongAllAxes(int64_t h, int64_t w, const google::protobuf::RepeatedField<uint32_t>& axes) {
  if (h > 0 || w > 0) return h == w ? h : -1;
  if (axes.empty()) return 0;
  return std::ranges::all_of(axes, [&](uint32_t one) { return one == axes[0]; }) ? axes[0] : -1;
}

template <typename Window>
int64_t StrideOfWindow(const Window& p) {
  return AlongAllAxes(p.stride_h(), p.stride_w(), p.stride());
}

// 0: none, or none of these two layers.
int64_t StrideOf(const LayerParameter& layer) {
  if (layer.has_convolution_param()) return StrideOfWindow(layer.convolution_param());
  if (!layer.has_pooling_param() || layer.pooling_param().global_pooling()) return 0;
  return StrideOfWindow(layer.pooling_param());
}

template <typename Window>
void ClearStride(Window& p) {
  p.clear_stride();
  p.clear_stride_h();
  p.clear_stride_w();
}

int64_t WindowOf(const PoolingParameter& p) { return AlongAllAxes(p.kernel_h(), p.kernel_w(), p.kernel_size()); }

// A pooling whose window has no middle goes; its readers read what it read.
bool GoesWhole(const LayerParameter& layer) {
  return layer.has_pooling_param() && WindowOf(layer.pooling_param()) % 2 != 1;
}

void TakeOutStride(LayerParameter& layer) {
  if (layer.has_convolution_param()) return ClearStride(*layer.mutable_convolution_param());
  PoolingParameter& p = *layer.mutable_pooling_param();
  ClearStride(p);
  p.clear_pad();
  p.clear_pad_h();
  p.clear_pad_w();
  p.add_pad(static_cast<uint32_t>(WindowOf(p) / 2));
}

// Takes out the strides that see the largest planes. Returns whether there were any, all of 2.
bool TakeOutFirst(const BuiltNet& built, NetParameter& net) {
  const auto size_before = [&](const LayerParameter& layer) -> int64_t {
    const auto found = layer.bottom_size() == 0 ? built.tops.end() : built.tops.find(layer.bottom(0));
    if (found == built.tops.end()) return 0;
    const Shape& shape = built.graph.shape(found->second);
    return shape.rank() == 4 ? shape[2] : 0;
  };
  int64_t largest = 0;
  for (const LayerParameter& layer : net.layer()) {
    const int64_t stride = StrideOf(layer);
    if (stride > 1 || stride < 0) largest = std::max(largest, size_before(layer));
  }
  NetParameter finer;
  std::vector<std::pair<std::string, std::string>> renamed;
  for (LayerParameter layer : net.layer()) {
    const int64_t stride = StrideOf(layer);
    const bool is_first = (stride > 1 || stride < 0) && size_before(layer) == largest;
    for (std::string& bottom : *layer.mutable_bottom()) {
      for (const auto& [from, to] : renamed)
        if (bottom == from) bottom = to;
    }
    if (is_first && stride != 2) return false;
    if (is_first && GoesWhole(layer)) {
      renamed.emplace_back(layer.top(0), layer.bottom(0));
      continue;
    }
    if (is_first) TakeOutStride(layer);
    *finer.add_layer() = std::move(layer);
  }
  net = std::move(finer);
  return largest > 0;
}

bool HaveSameBlobs(const BuiltNet& a, const BuiltNet& b) {
  return std::ranges::equal(a.blobs, b.blobs, [](const NetBlob& one, const NetBlob& other) {
    return one.name == other.name && one.shape == other.shape;
  });
}

}  // namespace

std::optional<NetParameter> FinerNet(const NetParameter& net, const std::string& input, const Shape& taken,
                                     int64_t side) {
  const auto levels = std::lround(std::log2(static_cast<double>(taken[2]) / static_cast<double>(side)));
  if (levels < 1) return std::nullopt;
  const QuietScope quiet;
  try {
    const BuiltNet before = Built(net, input, taken);
    NetParameter finer = net;
    for (long i = 0; i < levels; ++i) {
      if (!TakeOutFirst(Built(finer, input, taken), finer)) return std::nullopt;
    }
    const BuiltNet after = Built(finer, input, {1, taken[1], side, side});
    if (HaveSameBlobs(before, after)) return finer;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
  }
  return std::nullopt;
}

}  // namespace moka

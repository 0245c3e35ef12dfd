// Composes affine maps of pixels along the layers, from each crop's two bottoms to a blob that both come from; the
// offset is the difference of their shifts.
#include "proto/upgrade/crop_offsets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr double kTolerance = 1e-9;

// The pixel of a layer's top that pixel x of the bottom lies on: scale*x + shift, for the height and the width.
struct PixelMap {
  std::array<double, 2> scale = {1, 1};
  std::array<double, 2> shift = {0, 0};

  PixelMap After(const PixelMap& first) const {
    PixelMap both;
    for (size_t i = 0; i < 2; ++i) {
      both.scale[i] = scale[i] * first.scale[i];
      both.shift[i] = scale[i] * first.shift[i] + shift[i];
    }
    return both;
  }
  PixelMap Inverse() const {
    PixelMap back;
    for (size_t i = 0; i < 2; ++i) {
      back.scale[i] = 1 / scale[i];
      back.shift[i] = -shift[i] / scale[i];
    }
    return back;
  }
};

// A value that stands once for both axes, once an axis, or in fields of its own for the height and the width.
template <class Repeated>
double OfAxis(const Repeated& values, bool has_own, uint32_t own, size_t axis, double otherwise) {
  if (has_own) return own;
  if (values.empty()) return otherwise;
  return values.Get(std::min(static_cast<int>(axis), values.size() - 1));
}

template <class Window>
PixelMap WindowMap(const Window& p, const std::array<double, 2>& dilation) {
  PixelMap map;
  for (size_t i = 0; i < 2; ++i) {
    const bool is_height = i == 0;
    const double kernel = OfAxis(p.kernel_size(), is_height ? p.has_kernel_h() : p.has_kernel_w(),
                                 is_height ? p.kernel_h() : p.kernel_w(), i, 1);
    const double stride = std::max(1.0, OfAxis(p.stride(), is_height ? p.has_stride_h() : p.has_stride_w(),
                                               is_height ? p.stride_h() : p.stride_w(), i, 1));
    const double pad =
        OfAxis(p.pad(), is_height ? p.has_pad_h() : p.has_pad_w(), is_height ? p.pad_h() : p.pad_w(), i, 0);
    map.scale[i] = 1 / stride;
    map.shift[i] = (pad - (kernel - 1) * dilation[i] / 2) / stride;
  }
  return map;
}

bool KeepsPixels(std::string_view type) {
  static const std::set<std::string_view> types = {
      "AbsVal",  "BN",      "BNLL",  "BatchNorm", "Bias",  "Clip",  "Concat", "Dropout",  "ELU",
      "Eltwise", "Exp",     "LRN",   "Log",       "MVN",   "PReLU", "Power",  "ReLU",     "ReLU6",
      "Scale",   "Sigmoid", "Slice", "Softmax",   "Split", "Swish", "TanH",   "Threshold"};
  return types.contains(type);
}

// From the layer's first bottom to its tops; none for layers that have no such map.
std::optional<PixelMap> MapOf(const LayerParameter& layer) {
  if (layer.has_convolution_param()) {
    const ConvolutionParameter& p = layer.convolution_param();
    std::array<double, 2> dilation = {1, 1};
    for (size_t i = 0; i < 2; ++i) {
      dilation[i] = OfAxis(p.dilation(), i == 0 ? p.has_dilation_h() : p.has_dilation_w(),
                           i == 0 ? p.dilation_h() : p.dilation_w(), i, p.has_hole() ? p.hole() : 1);
    }
    const PixelMap map = WindowMap(p, dilation);
    return layer.type().find("Deconvolution") == std::string::npos ? map : map.Inverse();
  }
  if (layer.type() == "Pooling") {
    if (layer.pooling_param().global_pooling()) return std::nullopt;
    return WindowMap(layer.pooling_param(), {1, 1});
  }
  if (layer.type() == "Crop" || layer.type() == "AutoCrop") {
    PixelMap map;
    const CropParameter& p = layer.crop_param();
    for (size_t i = 0; i < 2; ++i) {
      const int at = static_cast<int>(i) + 2 - (p.axis() < 0 ? p.axis() + 4 : p.axis());
      if (p.offset_size() > 0 && at >= 0)
        map.shift[i] = -static_cast<double>(p.offset(std::min(at, p.offset_size() - 1)));
    }
    return map;
  }
  return KeepsPixels(layer.type()) ? std::optional(PixelMap()) : std::nullopt;
}

using Offsets = std::array<uint32_t, 2>;  // along the height and the width

// Where the pixels of each blob lie on those of its root: the blob that it is made of, through first bottoms, by layers
// that say where pixels go.
class Aligner {
 public:
  void Add(const LayerParameter& layer) {
    const Made* below = layer.bottom_size() > 0 ? Find(layer.bottom(0)) : nullptr;
    const std::optional<PixelMap> step = below == nullptr ? std::nullopt : MapOf(layer);
    const Made through = step ? Made{below->root, below->top, step->After(below->map)} : Made{&layer, 0, {}};
    for (int i = 0; i < layer.top_size(); ++i) {
      Made& made = made_[layer.top(i)];
      made = through;
      if (!step) made.top = i;
    }
  }

  // Throws where nothing aligns the two bottoms of the crop; nothing if one of them is unknown, which is the layer's
  // matter.
  std::optional<Offsets> OffsetsOf(const LayerParameter& crop) const {
    if (crop.bottom_size() != 2) return std::nullopt;
    const Made* from = Find(crop.bottom(0));
    const Made* to = Find(crop.bottom(1));
    if (from == nullptr || to == nullptr) return std::nullopt;
    CheckRoots(crop, *from, *to);
    const PixelMap map = to->map.After(from->map.Inverse());
    Offsets offsets{};
    for (size_t i = 0; i < 2; ++i) {
      const double offset = -map.shift[i];
      const char* const axis = i == 0 ? "height" : "width";
      const bool is_whole =
          std::abs(map.scale[i] - 1) <= kTolerance && std::abs(offset - std::round(offset)) <= kTolerance;
      if (is_whole && offset < -kTolerance) RefuseInside(crop, axis, -std::round(offset));
      if (!is_whole) {
        throw ErrorAt(crop, "bottom[0]",
                      StrCat("layer \"", crop.name(), "\": pixel x of \"", crop.bottom(0), "\" lies on pixel ",
                             map.scale[i], "*x", offset > 0 ? "" : "+", -offset, " of \"", crop.bottom(1),
                             "\" along the ", axis, "; a crop needs scale 1 and a whole offset of at least 0"));
      }
      offsets[i] = static_cast<uint32_t>(std::max(0.0, std::round(offset)));
    }
    return offsets;
  }

 private:
  [[noreturn]] static void RefuseInside(const LayerParameter& crop, std::string_view axis, double pixels) {
    throw ErrorAt(
        crop, "bottom[0]",
        StrCat("layer \"", crop.name(), "\": \"", crop.bottom(0), "\" begins ", pixels, " pixels inside \"",
               crop.bottom(1), "\" along the ", axis, " (offset -", pixels, "), so there is nothing to crop before it"),
        "a larger pad before it lets it begin outside: FCN's first convolution has pad: 100");
  }

  struct Made {
    const LayerParameter* root = nullptr;  // the layer that made it
    int top = 0;                           // and which of its tops it is
    PixelMap map;                          // from the root's pixels
  };

  const Made* Find(const std::string& name) const {
    const auto found = made_.find(name);
    return found == made_.end() ? nullptr : &found->second;
  }

  static void CheckRoots(const LayerParameter& crop, const Made& from, const Made& to) {
    if (from.root == to.root && from.top == to.top) return;
    const std::string hint = "give crop_param { offset: ... } and type \"Crop\"";
    for (const Made* made : {&from, &to}) {
      if (made->root->bottom_size() == 0) continue;
      throw ErrorAt(crop, "bottom[0]",
                    StrCat("layer \"", crop.name(), "\": type ", made->root->type(), " of layer \"", made->root->name(),
                           "\" on the way to its bottoms does not say where pixels go"),
                    hint);
    }
    throw ErrorAt(crop, "bottom[1]",
                  StrCat("layer \"", crop.name(), "\": bottoms \"", crop.bottom(0), "\" and \"", crop.bottom(1),
                         "\" are not made of one blob, so nothing aligns them"),
                  hint);
  }

  std::map<std::string, Made> made_;
};

// The same text means offset 0 in BVLC Caffe and an aligned crop in HED's: the first is built, and said.
void WarnOfOtherMeaning(const LayerParameter& crop, const Aligner& aligner) {
  try {
    const std::optional<Offsets> offsets = aligner.OffsetsOf(crop);
    if (!offsets || *offsets == Offsets{0, 0}) return;
    LogWarning(StrCat(PlaceOf(crop).ToString(), ": layer \"", crop.name(),
                      "\" has no crop_param and begins at 0, as in BVLC Caffe; its pixels lie on those of \"",
                      crop.bottom(1), "\" at offset ", (*offsets)[0], ", ", (*offsets)[1],
                      ", which forks take by themselves: type \"AutoCrop\""));
  } catch (const Error&) {
    return;  // they do not align, so that no fork has built it in the other meaning
  }
}

}  // namespace

void SetCropOffsets(NetParameter& net) {
  const auto is_crop = [](const LayerParameter& layer) {
    return (layer.type() == "AutoCrop" || layer.type() == "Crop") && !layer.has_crop_param();
  };
  if (std::ranges::none_of(net.layer(), is_crop)) return;
  Aligner aligner;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (is_crop(layer)) {
      if (layer.type() == "Crop") {
        WarnOfOtherMeaning(layer, aligner);
        layer.mutable_crop_param()->set_axis(2);  // stands there now: said once
      } else if (const std::optional<Offsets> offsets = aligner.OffsetsOf(layer)) {
        layer.mutable_crop_param()->set_axis(2);
        for (const uint32_t offset : *offsets) layer.mutable_crop_param()->add_offset(offset);
      }
    }
    aligner.Add(layer);
  }
}

}  // namespace moka

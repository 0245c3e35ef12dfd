// Unpooling (DeconvNet): MAX puts values at the places a mask names (without one, at their windows' first pixels); AVE
// spreads each value evenly over its window, TILE repeats it there; where windows overlap they add up. The fork's TILE
// has AVE's gradient; here it has its own.
#include <algorithm>
#include <optional>

#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// A field of two axes: one value for both, or _h and _w; the fallback where neither is given.
struct Pair {
  const char* name;
  bool has;
  int64_t both;
  bool has_h;
  int64_t h;
  bool has_w;
  int64_t w;
};

std::optional<Ints> Read(const LayerBuilder& l, const Pair& f) {
  const std::string field = StrCat("unpooling_param.", f.name);
  l.Check(f.has_h == f.has_w && !(f.has && f.has_h), "unpooling_param",
          StrCat("give ", f.name, ", or both of its _h and _w fields"));
  if (!f.has && !f.has_h) return std::nullopt;
  const Ints values = f.has ? Ints{f.both, f.both} : Ints{f.h, f.w};
  for (const int64_t value : values) {
    l.Check(value >= 1 && value <= INT32_MAX, "unpooling_param",
            StrCat(field, " must be from 1 to 2^31-1, found ", value));
  }
  return values;
}

struct Fields {
  Ints kernel;
  Ints stride;
  Ints size;
};

Fields ReadFields(const LayerBuilder& l) {
  const UnpoolingParameter& p = l.param().unpooling_param();
  const auto kernel = Read(l, {"kernel_size", p.has_kernel_size(), p.kernel_size(), p.has_kernel_h(), p.kernel_h(),
                               p.has_kernel_w(), p.kernel_w()});
  l.Check(kernel.has_value(), "unpooling_param", "kernel_size (or kernel_h and kernel_w) must be given");
  l.Check(p.pad() == 0 && p.pad_h() == 0 && p.pad_w() == 0, "unpooling_param", "a pad must be 0");
  Fields fields{.kernel = *kernel, .stride = {}, .size = {}};
  fields.stride =
      Read(l, {"stride", p.has_stride(), p.stride(), p.has_stride_h(), p.stride_h(), p.has_stride_w(), p.stride_w()})
          .value_or(Ints{1, 1});
  const auto size = Read(l, {"unpool_size", p.has_unpool_size(), p.unpool_size(), p.has_unpool_h(), p.unpool_h(),
                             p.has_unpool_w(), p.unpool_w()});
  for (size_t i = 0; i < 2; ++i) {
    const Size in = l.shape(0)[static_cast<int>(i) + 2];
    const int64_t last = ((in - 1) * fields.stride[i]).value();
    // The fork's rule leaves at least a pixel after the last stride.
    const int64_t natural = std::max((Size(last) + fields.kernel[i]).value(), (in * fields.stride[i] + 1).value());
    fields.size.push_back(size ? (*size)[i] : natural);
    l.Check(last < fields.size[i], "unpooling_param",
            StrCat("the last window would begin at ", last, ", outside an unpooled size of ", fields.size[i]));
  }
  return fields;
}

void BuildUnpooling(LayerBuilder& l) {
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  const Fields fields = ReadFields(l);
  const auto method = l.param().unpooling_param().unpool();
  const bool is_max = method == UnpoolingParameter::MAX;
  l.Check(is_max || l.bottom_count() == 1, "bottom[1]", "only unpool MAX takes a mask");
  if (l.bottom_count() == 2) {
    l.Check(
        l.shape(1) == l.shape(0), "bottom[1]",
        StrCat("the mask must have the bottom's shape, found ", l.shape(1).ToString(), " and ", l.shape(0).ToString()));
    l.SetTop(0, l.b().Add1("unpool_max", l.bottoms(), {{"size", fields.size}}));
    return;
  }
  l.SetTop(0, l.b().Add1("unpool", {l.bottom(0)},
                         {{"kernel", is_max ? Ints{1, 1} : fields.kernel},
                          {"stride", fields.stride},
                          {"size", fields.size},
                          {"mean", method == UnpoolingParameter::AVE}}));
}

}  // namespace

LayerDef UnpoolingLayer() {
  return {
      .type = "Unpooling",
      .doc =
          "Of [N,C,H,W]. MAX: a map of zeros with each value at the place the second bottom (a Pooling's mask) names, "
          "or without one at the first pixel of its window; AVE: each value spread evenly over its window; TILE: "
          "repeated there; overlapping windows add up. kernel_size and stride (default 1) lay the windows; unpool_size "
          "(unpool_h, unpool_w) is the size of the top; default max((H-1) stride + kernel, H stride + 1).",
      .max_bottoms = 2,
      .build = BuildUnpooling,
      .page = {
          .params = {"unpooling_param"},
          .formula = "y `[N,C,h,w]` begins as zeros; window (i, j) covers rows `[i s, i s + k)` and columns `[j s, j s "
                     "+ k)`, cut to y, for kernel k and stride s (default 1). h is unpool_size (or unpool_h), default "
                     "`max((H - 1) s + k, H s + 1)`; w likewise.\n\nMAX with a mask (bottom 1, of the shape of x): "
                     "`y[n,c, mask[n,c,i,j]] = x[n,c,i,j]` in a plane's index `row * w + column`, a later value "
                     "overwriting an earlier one, masks outside the plane ignored. MAX without: x goes to its window's "
                     "first pixel. AVE: `x / pixels of the window` is added to every pixel of the window, TILE: `x`.",
          .gradient = "x: MAX `dx` is dy at the value's place (with a mask for overwritten ones as well); AVE the mean "
                      "of dy over the window; TILE its sum. The mask gets none.",
          .source = "Noh, Hong, Han, \"Learning Deconvolution Network for Semantic Segmentation\", 2015, arXiv "
                    "1505.04366; the unpooling_layer of DeconvNet's Caffe. The fork's TILE has AVE's gradient; here it "
                    "has its own. A pad must be 0.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 8 dim: 8 } } }
layer {
  name: "pool"
  type: "Pooling"
  bottom: "x"
  top: "pool"
  top: "mask"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 }
}
layer {
  name: "unpool"
  type: "Unpooling"
  bottom: "pool"
  bottom: "mask"
  top: "unpool"
  unpooling_param { unpool: MAX kernel_size: 2 stride: 2 unpool_size: 8 }
})"}};
}

}  // namespace moka

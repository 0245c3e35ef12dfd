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
  return {.type = "Unpooling", .max_bottoms = 2, .build = BuildUnpooling, .params = {"unpooling_param"}};
}

}  // namespace moka

// Interp (DeepLab, PSPNet): bilinear resizing with aligned corners. Negative pads crop the bottom first. The size is,
// in the fork's order: shrink_factor alone, (in-1)/s + 1; zoom_factor alone, in + (in-1)(z-1); height and width; both
// factors, shrink then zoom; the second bottom's (which use_blob_size puts first).
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

int64_t Factor(const LayerBuilder& l, const char* field, int64_t value) {
  l.Check(value >= 1, field, StrCat(field, " must be at least 1, found ", value));
  return value;
}

int64_t SizeOfSecond(const LayerBuilder& l, int axis) {
  l.Check(l.bottom_count() == 2, "interp_param",
          "give zoom_factor, shrink_factor, height and width, or a second bottom for the size");
  l.Check(l.shape(1).rank() == 4, "bottom[1]",
          StrCat("the second bottom must be [N,C,H,W], found ", l.shape(1).ToString()));
  return l.shape(1)[axis];
}

// The output's size along an axis that has `in` pixels once cropped.
int64_t OutputSize(const LayerBuilder& l, int axis, int64_t in) {
  const InterpParameter& p = l.param().interp_param();
  const int64_t zoom = Factor(l, "interp_param.zoom_factor", p.zoom_factor());
  const int64_t shrink = Factor(l, "interp_param.shrink_factor", p.shrink_factor());
  if (p.use_blob_size()) return SizeOfSecond(l, axis);
  const bool is_one_factor = p.has_zoom_factor() != p.has_shrink_factor();
  if (!is_one_factor && p.has_height() && p.has_width()) return axis == 2 ? p.height() : p.width();
  if (p.has_zoom_factor() || p.has_shrink_factor()) {
    const Size shrunk = (in - 1) / shrink + 1;
    return (shrunk + (shrunk - 1) * (zoom - 1)).value();
  }
  return SizeOfSecond(l, axis);
}

// The bottom as [N,C,H,W]; axes it lacks are 1, as for all layers of Caffe that ask for num, channels, height and
// width.
ValueId Maps(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() <= 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  Shape maps = x;
  while (maps.rank() < 4) maps = maps.Inserted(maps.rank(), 1);
  return maps == x ? l.bottom(0) : l.b().Reshape(l.bottom(0), maps);
}

// The bottom without -pad_beg pixels at the start and -pad_end at the end of an axis.
ValueId Cropped(const LayerBuilder& l, ValueId x, int axis) {
  const int64_t begin = -int64_t{l.param().interp_param().pad_beg()};
  const int64_t end = -int64_t{l.param().interp_param().pad_end()};
  if (begin == 0 && end == 0) return x;
  const int64_t size = l.b().shape(x)[axis];
  const int64_t left = size - begin - end;
  l.Check(left >= 1, "interp_param.pad_beg",
          StrCat("pad_beg and pad_end crop ", begin + end, " of the ", size, " pixels of ", l.shape(0).ToString()));
  Ints sizes = {left};
  if (begin > 0) sizes.insert(sizes.begin(), begin);
  if (end > 0) sizes.push_back(end);
  const std::vector<ValueId> parts = l.b().Add("slice", {x}, {{"axis", int64_t{axis}}, {"sizes", sizes}});
  return parts[begin > 0 ? 1 : 0];
}

void BuildInterp(LayerBuilder& l) {
  const InterpParameter& p = l.param().interp_param();
  l.Check(p.pad_beg() <= 0, "interp_param.pad_beg", StrCat("a pad must be at most 0 (it crops), found ", p.pad_beg()));
  l.Check(p.pad_end() <= 0, "interp_param.pad_end", StrCat("a pad must be at most 0 (it crops), found ", p.pad_end()));
  const ValueId cropped = Cropped(l, Cropped(l, Maps(l), 2), 3);
  Ints size;
  for (const int axis : {2, 3}) {
    size.push_back(OutputSize(l, axis, l.b().shape(cropped)[axis]));
    l.Check(size.back() >= 1 && size.back() <= INT32_MAX, axis == 2 ? "interp_param.height" : "interp_param.width",
            StrCat("axis ", axis, " of the top would have ", size.back(), " pixels; it must be from 1 to 2^31-1"));
  }
  if (Shape(size) == Part(l.b().shape(cropped), 2, 4)) return l.SetTop(0, cropped);
  l.SetTop(0, l.b().Add1("interpolate", {cropped}, {{"size", size}}));
}

}  // namespace

LayerDef InterpLayer() {
  return {.type = "Interp",
          .max_bottoms = 2,
          .build = BuildInterp,
          .traits = {.top_shape = TopShape::kAxes},
          .needs = NeedPictures,
          .params = {"interp_param"}};
}

}  // namespace moka

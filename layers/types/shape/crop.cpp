// The part of the first bottom that has the second's size from `axis` on, at an offset. AutoCrop's offset was found by
// SetCropOffsets when the net was filtered.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

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

// The bottom that a map is cropped to is as large as the map.
void NeedsOfCrop(const ShapeReader& reader) {
  if (!reader.has_failed()) return;
  const Shape* map = reader.bottom(0);
  for (int b = 0; b < reader.bottom_count(); ++b) {
    const DataTop* top = reader.needs().Changeable(reader.SourceOf(reader.name(b)));
    if (top == nullptr || top->shape.rank() >= 4) continue;
    const bool is_window = map != nullptr && map->rank() == 4 && reader.name(b) != reader.name(0);
    reader.Require(b, is_window ? map->With(1, 1) : reader.needs().FirstOf(*top, {top->shape[0], 3, 224, 224}));
  }
}

}  // namespace

LayerDef CropLayer() {
  return {.type = "Crop",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildCrop,
          .traits = {.top_shape = TopShape::kAxes, .hands_on = true},
          .needs = NeedsOfCrop,
          .params = {"crop_param"}};
}

LayerDef AutoCropLayer() {
  return {.type = "AutoCrop", .min_bottoms = 2, .max_bottoms = 2, .build = BuildCrop, .params = {"crop_param"}};
}

}  // namespace moka

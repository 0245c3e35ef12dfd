// The spellings (kernel_size, kernel_h and kernel_w, lists) exclude each other; all become one value a spatial axis.
#include "layers/types/convolution/spatial_fields.h"

#include "core/text.h"

namespace moka {
namespace {

// One value for all of `axes` axes, or one each.
Ints Spelled(const LayerBuilder& l, const SpatialField& field, int axes) {
  if (!field.h && !field.w) {
    if (field.values.empty()) {
      l.Check(field.fallback >= 0, field.name.substr(0, field.name.find('.')),
              StrCat(field.name, " (or its _h and _w fields) must be given"));
      return Ints(static_cast<size_t>(axes), field.fallback);
    }
    const auto given = static_cast<int>(field.values.size());
    l.Check(
        given == 1 || given == axes, field.name,
        StrCat(field.name, " is given ", given, " times for ", axes, " spatial axes; give one value, or one an axis"));
    return given == axes ? field.values : Ints(static_cast<size_t>(axes), field.values[0]);
  }
  l.Check(field.values.empty(), field.name_h,
          StrCat("both ", field.name, " and its _h or _w spelling are given; give one of them"));
  l.Check(axes == 2, field.name_h,
          StrCat("the _h and _w fields are for 2 spatial axes, the bottom ", l.shape(0).ToString(), " has ", axes));
  l.Check((field.h && field.w) || field.least == 0, field.name_h,
          StrCat(field.name, ": both the _h and the _w field are needed"));
  return {field.h.value_or(0), field.w.value_or(0)};
}

}  // namespace

int SpatialAxes(const LayerBuilder& l, const Shape& x) {
  const int spatial = x.rank() - 2;
  l.Check(spatial >= 1 && spatial <= kMaxSpatial, "bottom[0]",
          StrCat("the bottom must be [N,C] and 1 to ", kMaxSpatial, " spatial axes, found ", x.ToString()));
  return spatial;
}

ChannelAxis::ChannelAxis(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  const int64_t given = l.param().convolution_param().axis();
  const int64_t axis = given < 0 ? given + x.rank() : given;
  l.Check(axis >= 0 && axis < x.rank(), "convolution_param.axis",
          StrCat("axis ", given, " does not exist in the bottom ", x.ToString()));
  items_ = Part(x, 0, static_cast<int>(axis));
  shape_ = Joined({items_.Count()}, Part(x, static_cast<int>(axis), x.rank()));
}

ValueId ChannelAxis::Fold(const LayerBuilder& l, ValueId bottom) const {
  return items_.rank() == 1 ? bottom : l.b().Reshape(bottom, shape_);
}

ValueId ChannelAxis::Unfold(const LayerBuilder& l, ValueId top) const {
  if (items_.rank() == 1) return top;
  const Shape y = l.b().shape(top);
  return l.b().Reshape(top, Joined(items_, Part(y, 1, y.rank())));
}

Ints ReadSpatial(const LayerBuilder& l, const SpatialField& field, int spatial) {
  Ints values;
  if (!field.shape.empty()) {
    l.Check(static_cast<int>(field.shape.size()) == spatial, field.name,
            StrCat(field.name, " has a shape of ", field.shape.size(), " values for ", spatial, " spatial axes"));
    values = field.shape;
  } else if (field.depth) {
    l.Check(spatial == 3, field.name,
            StrCat("a depth is given but the bottom ", l.shape(0).ToString(), " has ", spatial, " spatial axes"));
    values = Spelled(l, field, 2);
    values.insert(values.begin(), *field.depth);
  } else {
    values = Spelled(l, field, spatial);
  }
  for (const int64_t value : values) {
    l.Check(value >= field.least, field.name, StrCat(field.name, " must be at least ", field.least, ", found ", value));
    l.Check(value <= INT32_MAX, field.name, StrCat(field.name, " must be below 2^31, found ", value));
  }
  return values;
}

}  // namespace moka

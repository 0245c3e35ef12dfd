// Checks with the field's path in the error, so that each layer's build function stays a list of what it reads.
#include "layers/net/fields.h"

#include <cmath>

#include "core/text.h"

namespace moka {

double Finite(const LayerBuilder& l, std::string_view field, float value) {
  l.Check(std::isfinite(value), field, StrCat(field, " must be a finite number, found ", value));
  return static_cast<double>(value);
}

int AxisOf(const LayerBuilder& l, std::string_view field, int64_t axis, const Shape& shape) {
  const int rank = shape.rank();
  l.Check(axis >= -rank && axis < rank, field,
          StrCat(field, " is ", axis, " but the bottom ", shape.ToString(), " has ", rank, " axes"));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int AxisOf(const LayerBuilder& l, const AxisFields& fields, const Shape& shape) {
  l.Check(!(fields.has_axis && fields.has_legacy), fields.legacy_field,
          StrCat("both ", fields.axis_field, " and ", fields.legacy_field, " are given; give one"));
  if (fields.has_legacy) return AxisOf(l, fields.legacy_field, fields.legacy, shape);
  return AxisOf(l, fields.axis_field, fields.axis, shape);
}

Shape Spread(const Shape& shape, int axis, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  for (int i = 0; i < shape.rank(); ++i) dims[static_cast<size_t>(axis) + static_cast<size_t>(i)] = shape[i];
  return Shape(dims);
}

Shape Part(const Shape& shape, int begin, int end) {
  return Shape(shape.dims().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

Shape Joined(const Shape& a, const Shape& b) {
  std::vector<int64_t> dims(a.dims().begin(), a.dims().end());
  dims.insert(dims.end(), b.dims().begin(), b.dims().end());
  return Shape(dims);
}

ValueId Activated(const LayerBuilder& l, ValueId y, const std::string& param, bool relu, float negative_slope) {
  const double slope = Finite(l, param + ".negative_slope", negative_slope);
  l.Check(relu || slope == 0, param + ".negative_slope", "negative_slope needs relu: true");
  if (!relu) return y;
  const Term x = Term::Of(y);
  return Computed(l.b(), slope == 0 ? Max(x, 0) : Select(x > 0, x, Decimal(slope) * x));
}

void CheckLabelCount(const LayerBuilder& l, int axis) {
  const Shape x = l.shape(0);
  const int64_t predictions = (Size(x.Count(0, axis)) * x.Count(axis + 1, x.rank())).value();
  l.Check(l.shape(1).Count() == predictions, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" ", l.shape(1).ToString(), " has ", l.shape(1).Count(),
                 " labels but bottom \"", l.param().bottom(0), "\" ", x.ToString(), " has ", predictions,
                 " predictions (classes along axis ", axis, ")"));
}

}  // namespace moka

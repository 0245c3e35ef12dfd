// Reading of fields that many layers share: numbers in expressions, axes, broadcast shapes, spatial fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "layers/net/layer.h"

namespace moka {

// A field's number. Errors: kConfig at the field if it is not finite.
double Finite(const LayerBuilder& l, std::string_view field, float value);

// 0 <= axis < rank of an axis field that may count from the end. Errors: kConfig at the field.
int AxisOf(const LayerBuilder& l, std::string_view field, int64_t axis, const Shape& shape);

// Concat's and Slice's axis: `axis`, or the deprecated field; not both.
struct AxisFields {
  std::string_view axis_field;
  bool has_axis;
  int64_t axis;
  std::string_view legacy_field;
  bool has_legacy;
  int64_t legacy;
};
int AxisOf(const LayerBuilder& l, const AxisFields& fields, const Shape& shape);

// `shape` laid at axes [axis, axis + shape.rank()) of a tensor of this rank, 1 elsewhere: it then broadcasts.
Shape Spread(const Shape& shape, int axis, int rank);

// The dimensions [begin, end).
Shape Part(const Shape& shape, int begin, int end);
Shape Joined(const Shape& a, const Shape& b);

// y itself, or with a ReLU after it (Intel's relu and negative_slope fields of `param`).
ValueId Activated(const LayerBuilder& l, ValueId y, const std::string& param, bool relu, float negative_slope);

// The labels (bottom 1) must be as many as the predictions at `axis` of bottom 0.
void CheckLabelCount(const LayerBuilder& l, int axis);

// The shapes a data-like layer gives: one for all tops or one a top, every dimension at least 1.
template <class Shapes>
std::vector<TensorType> TopTypes(const LayerBuilder& l, const std::string& field, const Shapes& shapes) {
  l.Check(shapes.size() == 1 || shapes.size() == l.top_count(), field,
          StrCat(field, " is given ", shapes.size(), " times for ", l.top_count(), " tops; give one, or one a top"));
  std::vector<TensorType> types;
  for (int i = 0; i < l.top_count(); ++i) {
    const auto& dims = shapes.Get(shapes.size() == 1 ? 0 : i).dim();
    for (const int64_t dim : dims) {
      l.Check(dim >= 1, field, StrCat(field, ": every dimension must be at least 1, found ", dim));
    }
    l.Check(dims.size() <= Shape::kMaxRank, field,
            StrCat(field, " has ", dims.size(), " dimensions; the limit is ", Shape::kMaxRank));
    types.push_back(
        {DType::kFloat32, Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(dims.size()))), {}});
  }
  return types;
}

// The fields that Convolution and Deconvolution read: one value a spatial axis each.
struct ConvolutionFields {
  Ints kernel;
  Ints stride;
  Ints pad;
  Ints pad_end;
  Ints dilation;
  int64_t outputs = 0;
  int64_t groups = 1;

  // stride, pad_begin, pad_end, dilation, groups of the convolution ops.
  Attributes attributes() const;
};
// Errors: kConfig for conflicting or missing fields, counts and channels that do not fit.
ConvolutionFields ReadConvolution(const LayerBuilder& l);

}  // namespace moka

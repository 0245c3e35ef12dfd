// Reads and checks the fields once for the layers of proposals, targets and detections, so that they have one set of
// anchors.
#include "layers/forks/mask_rcnn/layers/fields.h"

#include <cmath>

#include "core/text.h"

namespace moka {
namespace {

Doubles PositiveNumbers(const LayerBuilder& l, const std::string& field,
                        const google::protobuf::RepeatedField<float>& values) {
  Doubles list;
  for (const float value : values) {
    list.push_back(Finite(l, field, value));
    l.Check(value > 0, field, StrCat(field, " must be greater than 0, found ", value));
  }
  return list;
}

}  // namespace

Attributes AnchorsOfPyramid(const LayerBuilder& l, int levels) {
  const PyramidParameter& p = l.param().pyramid_param();
  const Doubles strides = PositiveNumbers(l, "pyramid_param.stride", p.stride());
  const Doubles sizes = PositiveNumbers(l, "pyramid_param.size", p.size());
  Doubles ratios = PositiveNumbers(l, "pyramid_param.ratio", p.ratio());
  if (ratios.empty()) ratios = {0.5, 1, 2};
  const auto count = static_cast<size_t>(levels);
  l.Check(strides.size() == count, "pyramid_param.stride",
          StrCat("pyramid_param.stride must be given once a map, found ", strides.size(), " for ", levels, " maps"));
  l.Check(
      !sizes.empty() && sizes.size() % count == 0, "pyramid_param.size",
      StrCat("pyramid_param.size must be given equally often for each of the ", levels, " maps, found ", sizes.size()));
  Doubles anchors;
  for (const double size : sizes) {
    for (const double ratio : ratios) {
      const double height = std::nearbyint(std::sqrt(ratio) * size / 2);
      const double width = std::nearbyint(size / std::sqrt(ratio) / 2);
      for (const double corner : {-width, -height, width, height}) anchors.push_back(corner);
    }
  }
  return {{"strides", strides}, {"anchors", anchors}};
}

Attributes PicturesOfBottom0(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be the pictures [N,C,H,W], found ", x.ToString()));
  return {{"height", x[2]}, {"width", x[3]}};
}

Doubles StdsOfField(const LayerBuilder& l, const std::string& field,
                    const google::protobuf::RepeatedField<float>& values) {
  const Doubles stds = PositiveNumbers(l, field, values);
  l.Check(stds.empty() || stds.size() == 4, field, StrCat(field, " must be four numbers, found ", stds.size()));
  return stds.empty() ? Doubles{0.1, 0.1, 0.2, 0.2} : stds;
}

double PartOfField(const LayerBuilder& l, const std::string& field, float value) {
  const double part = Finite(l, field, value);
  l.Check(part >= 0 && part <= 1, field, StrCat(field, " must be from 0 to 1, found ", part));
  return part;
}

Attributes Together(Attributes attributes, const Attributes& more) {
  for (const auto& [name, value] : more.values()) attributes.Set(name, value);
  return attributes;
}

}  // namespace moka

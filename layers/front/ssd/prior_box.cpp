// PriorBox: SSD's default boxes of one feature map, a constant of the shapes and fields.
#include <cmath>

#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/ssd/layers.h"

namespace moka {
namespace {

Doubles Sizes(const LayerBuilder& l, const std::string& field, const google::protobuf::RepeatedField<float>& values) {
  Doubles sizes;
  for (const float value : values) {
    sizes.push_back(Finite(l, field, value));
    l.Check(value > 0 && value < static_cast<float>(INT32_MAX), field,
            StrCat(field, " must be above 0 and below 2^31, found ", value));
  }
  return sizes;
}

// 1, then each ratio not there yet, followed by its inverse when flip is set.
Doubles Ratios(const LayerBuilder& l, const PriorBoxParameter& p) {
  Doubles ratios = {1};
  for (const double ratio : Sizes(l, "prior_box_param.aspect_ratio", p.aspect_ratio())) {
    bool is_there = false;
    for (const double other : ratios) is_there |= std::abs(ratio - other) < 1e-6;
    if (is_there) continue;
    ratios.push_back(ratio);
    if (p.flip()) ratios.push_back(1 / ratio);
  }
  return ratios;
}

Doubles Variances(const LayerBuilder& l, const PriorBoxParameter& p) {
  constexpr const char* kField = "prior_box_param.variance";
  l.Check(p.variance_size() <= 1 || p.variance_size() == 4, kField,
          StrCat("variance takes one value or four, found ", p.variance_size()));
  if (p.variance_size() == 0) return {static_cast<double>(0.1F)};
  return Sizes(l, kField, p.variance());
}

// Height and width of the image the boxes are fractions of.
Ints ImageSize(const LayerBuilder& l, const PriorBoxParameter& p) {
  if (p.has_img_h() || p.has_img_w()) {
    l.Check(!p.has_img_size(), "prior_box_param.img_size", "give img_size, or img_h and img_w; not both");
    l.Check(p.img_h() > 0 && p.img_w() > 0, "prior_box_param", "img_h and img_w must both be above 0");
    return {p.img_h(), p.img_w()};
  }
  if (p.has_img_size()) {
    l.Check(p.img_size() > 0, "prior_box_param.img_size", "img_size must be above 0");
    return {p.img_size(), p.img_size()};
  }
  l.Check(l.bottom_count() == 2, "bottom", "the image's size is needed: a second bottom, or prior_box_param.img_size");
  l.Check(l.shape(1).rank() == 4, "bottom[1]", StrCat("the image must be [N,C,H,W], found ", l.shape(1).ToString()));
  return {l.shape(1)[2], l.shape(1)[3]};
}

// Pixels a cell, vertical and horizontal.
Doubles Steps(const LayerBuilder& l, const PriorBoxParameter& p, const Ints& image) {
  if (p.has_step_h() || p.has_step_w()) {
    l.Check(!p.has_step(), "prior_box_param.step", "give step, or step_h and step_w; not both");
    l.Check(p.step_h() > 0 && p.step_w() > 0, "prior_box_param", "step_h and step_w must both be above 0");
    return {Finite(l, "prior_box_param.step_h", p.step_h()), Finite(l, "prior_box_param.step_w", p.step_w())};
  }
  if (p.has_step()) {
    l.Check(p.step() > 0, "prior_box_param.step", StrCat("step must be above 0, found ", p.step()));
    const double step = Finite(l, "prior_box_param.step", p.step());
    return {step, step};
  }
  return {static_cast<double>(image[0]) / static_cast<double>(l.shape(0)[2]),
          static_cast<double>(image[1]) / static_cast<double>(l.shape(0)[3])};
}

void Build(LayerBuilder& l) {
  const PriorBoxParameter& p = l.param().prior_box_param();
  l.Check(p.min_size_size() > 0, "prior_box_param.min_size", "prior_box_param.min_size must be given");
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  const Doubles min_sizes = Sizes(l, "prior_box_param.min_size", p.min_size());
  const Doubles max_sizes = Sizes(l, "prior_box_param.max_size", p.max_size());
  l.Check(max_sizes.empty() || max_sizes.size() == min_sizes.size(), "prior_box_param.max_size",
          StrCat("max_size is given ", max_sizes.size(), " times for ", min_sizes.size(), " min_sizes"));
  for (size_t i = 0; i < max_sizes.size(); ++i) {
    l.Check(max_sizes[i] > min_sizes[i], StrCat("prior_box_param.max_size[", i, "]"),
            StrCat("max_size ", max_sizes[i], " must be above its min_size ", min_sizes[i]));
  }
  const Ints image = ImageSize(l, p);
  l.SetTop(0, l.b().Add1("prior_box", {},
                         {{"map", Ints{l.shape(0)[2], l.shape(0)[3]}},
                          {"image", image},
                          {"min_sizes", min_sizes},
                          {"max_sizes", max_sizes},
                          {"aspect_ratios", Ratios(l, p)},
                          {"variances", Variances(l, p)},
                          {"step", Steps(l, p, image)},
                          {"offset", Finite(l, "prior_box_param.offset", p.offset())},
                          {"clip", p.clip()}}));
}

}  // namespace

LayerDef PriorBoxLayer() {
  return {
      .type = "PriorBox",
      .doc =
          "Default boxes of every cell of bottom 0 [N,C,H,W]: [1,2,H*W*n*4], row 0 (xmin, ymin, xmax, ymax) as "
          "fractions of the image (bottom 1, or img_size), row 1 the variances. Each min_size gives a square of "
          "it, one of sqrt(min_size*max_size) if there are max_sizes, and a box of its area for each aspect_ratio "
          "(1/ratio too with flip); sizes are truncated to whole pixels. Centres lie at (cell + offset) * step.",
      .max_bottoms = 2,
      .build = Build,
      .page = {
          .params = {"prior_box_param"},
          .formula = "For cell (h, w), in row-major order, and each min_size m with its max_size M, boxes of "
                     "width and height `m, m`; `sqrt(m M), sqrt(m M)` if there are max_sizes; `m sqrt(a), m / "
                     "sqrt(a)` for each aspect_ratio a other than 1, each followed by 1/a with flip (default "
                     "true); m and M are truncated to whole pixels. Centres are `(w + offset) * step_w, (h + "
                     "offset) * step_h` pixels, offset 0.5 by default; step is by default the image's size "
                     "divided by the map's.\n\nRow 0 of the top [1,2,H*W*n*4] holds the corners xmin, ymin, xmax, "
                     "ymax divided by the image's width and height (clip: bounded to [0, 1]; default not), row 1 "
                     "the variances of each coordinate: four, or one for all, default 0.1. The image's size is "
                     "img_size, or img_h and img_w, or bottom 1's.",
          .gradient = "None: the top is a constant of shapes and fields.",
          .source = "SSD's Caffe (Liu et al., arXiv 1512.02325).",
          .example =
              R"(layer { name: "im" type: "Input" top: "im" input_param { shape { dim: 2 dim: 3 dim: 64 dim: 64 } } }
layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 8 dim: 4 dim: 4 } } }
layer {
  name: "prior"
  type: "PriorBox"
  bottom: "map"
  bottom: "im"
  top: "prior"
  prior_box_param {
    min_size: 20
    max_size: 30
    aspect_ratio: 2
    variance: 0.1
    variance: 0.1
    variance: 0.2
    variance: 0.2
  }
})"}};
}

}  // namespace moka

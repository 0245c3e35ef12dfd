// PriorBox: SSD's default boxes of one feature map, a constant of the shapes and fields; and what forks made of them.
// Each min_size gives a square of it, a square of sqrt(min * max) if there are max_sizes, and a box of its area for
// each aspect ratio; sizes are truncated to whole pixels, as SSD's Caffe does.
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr double kSameRatio = 1e-6;

Doubles Sizes(const LayerBuilder& l, const std::string& field, const google::protobuf::RepeatedField<float>& values) {
  Doubles sizes;
  for (const float value : values) {
    sizes.push_back(Finite(l, field, value));
    l.Check(value > 0 && value < static_cast<float>(INT32_MAX), field,
            StrCat(field, " must be above 0 and below 2^31, found ", value));
  }
  return sizes;
}

// `first`, then each ratio not there yet, followed by its inverse when flip is set.
Doubles Ratios(const LayerBuilder& l, const PriorBoxParameter& p, Doubles first) {
  Doubles ratios = std::move(first);
  for (const double ratio : Sizes(l, "prior_box_param.aspect_ratio", p.aspect_ratio())) {
    bool is_there = false;
    for (const double other : ratios) is_there |= std::abs(ratio - other) < kSameRatio;
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

// The boxes of one cell, as the op has them.
class CellBoxes {
 public:
  CellBoxes(const LayerBuilder& l, const PriorBoxParameter& p, const Ints& image, const Doubles& steps)
      : l_(l), p_(p), image_(image), steps_(steps), offset_(Finite(l, "prior_box_param.offset", p.offset())) {}

  Doubles Of() {
    if (p_.width_size() > 0 || p_.height_size() > 0) {
      AddClusters();
    } else if (p_.faceboxes()) {
      for (const double side : Sizes(l_, "prior_box_param.min_size", p_.min_size())) AddDense(std::trunc(side));
    } else if (p_.fixed_size_size() > 0) {
      AddFixed();
    } else {
      AddSizes();
    }
    return std::move(boxes_);
  }

 private:
  // Centre in cells, sides in pixels.
  void Add(double x, double y, double width, double height) { boxes_.insert(boxes_.end(), {x, y, width, height}); }
  void Add(double width, double height) {
    Add(offset_, offset_, width, height);
    if (p_.textboxes()) Add(offset_, offset_ + kHalfCell, width, height);
    if (p_.denser_prior_boxes()) Add(offset_, kLowerEdge, width, height);
  }

  // OpenVINO's PriorBoxClustered.
  void AddClusters() {
    const Doubles widths = Sizes(l_, "prior_box_param.width", p_.width());
    const Doubles heights = Sizes(l_, "prior_box_param.height", p_.height());
    l_.Check(widths.size() == heights.size(), "prior_box_param",
             StrCat("width is given ", widths.size(), " times and height ", heights.size(), " times"));
    for (size_t i = 0; i < widths.size(); ++i) Add(offset_, offset_, widths[i], heights[i]);
  }

  // FaceBoxes' anchors: small ones as dense as the anchors of the largest size a cell has, 32 pixels apart.
  void AddDense(double side) {
    const int count = side == 32 ? 4 : side == 64 ? 2 : 1;
    const double gap = 32.0 / count;  // pixels
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < count; ++j) {
        const auto moved = [&](int k, double step) {
          return offset_ + (count == 1 ? 0 : (k - count / 2) * gap / step);
        };
        Add(moved(j, steps_[1]), moved(i, steps_[0]), side - 1, side - 1);
      }
    }
  }

  // The fields of FaceBoxes' second port: `density` boxes in each direction, a whole number of pixels apart.
  void AddFixed() {
    const Doubles sizes = Sizes(l_, "prior_box_param.fixed_size", p_.fixed_size());
    const Doubles densities = Sizes(l_, "prior_box_param.density", p_.density());
    l_.Check(densities.size() == sizes.size(), "prior_box_param.density",
             StrCat("density is given ", densities.size(), " times for ", sizes.size(), " fixed_sizes"));
    const bool has_ratio = p_.fixed_ratio_size() > 0;
    const Doubles ratios = has_ratio ? Sizes(l_, "prior_box_param.fixed_ratio", p_.fixed_ratio()) : Ratios(l_, p_, {1});
    for (size_t s = 0; s < sizes.size(); ++s) {
      l_.Check(densities[s] >= 1 && densities[s] <= kMostDense, StrCat("prior_box_param.density[", s, "]"),
               StrCat("density must be from 1 to ", kMostDense, ", found ", densities[s]));
      for (const double ratio : ratios) {
        // A square has whole pixels; the others have the size as it is given.
        const double side = !has_ratio && ratio == 1 ? std::trunc(sizes[s]) : sizes[s];
        AddGrid(sizes[s], std::trunc(densities[s]), side * std::sqrt(ratio), side / std::sqrt(ratio));
      }
    }
  }

  void AddGrid(double size, double density, double width, double height) {
    const double gap = std::trunc(size / density);                    // pixels
    const double first = gap / 2 - std::trunc(std::trunc(size) / 2);  // of the centre, from the cell's
    const auto moved = [&](double k, double step) { return offset_ + (first + k * gap) / step; };
    for (double i = 0; i < density; ++i) {
      for (double j = 0; j < density; ++j) Add(moved(j, steps_[1]), moved(i, steps_[0]), width, height);
    }
  }

  void AddSizes() {
    const Doubles min_sizes = Sizes(l_, "prior_box_param.min_size", p_.min_size());
    const Doubles max_sizes = Sizes(l_, "prior_box_param.max_size", p_.max_size());
    l_.Check(max_sizes.empty() || max_sizes.size() == min_sizes.size(), "prior_box_param.max_size",
             StrCat("max_size is given ", max_sizes.size(), " times for ", min_sizes.size(), " min_sizes"));
    for (size_t i = 0; i < max_sizes.size(); ++i) {
      l_.Check(max_sizes[i] > min_sizes[i], StrCat("prior_box_param.max_size[", i, "]"),
               StrCat("max_size ", max_sizes[i], " must be above its min_size ", min_sizes[i]));
    }
    if (p_.offset_w_size() > 0 || p_.offset_h_size() > 0) {
      AddShifted(min_sizes);
      return;
    }
    for (size_t s = 0; s < min_sizes.size(); ++s) {
      const double side = std::trunc(min_sizes[s]);
      const double middle = max_sizes.empty() ? 0 : std::sqrt(side * std::trunc(max_sizes[s]));
      if (p_.use_default()) {
        AddAround(side, middle);
      } else {
        AddBothSizes(side, middle);
      }
    }
  }

  // The two squares and the boxes of the ratios. tf: the larger square comes last, and 60 pixels, which stand for
  // TensorFlow's smallest scale, are a tenth of the image less.
  void AddAround(double side, double middle) {
    const double less = p_.tf() && side == 60 ? 0.1 : 0;
    Add(side - less * static_cast<double>(image_[1]), side - less * static_cast<double>(image_[0]));
    if (middle > 0 && !p_.tf()) Add(middle, middle);
    for (const double ratio : Ratios(l_, p_, {1})) {
      if (std::abs(ratio - 1) >= kSameRatio) Add(side * std::sqrt(ratio), side / std::sqrt(ratio));
    }
    if (middle > 0 && p_.tf()) Add(middle, middle);
  }

  // use_default: false.
  void AddBothSizes(double side, double middle) {
    for (const double ratio : Ratios(l_, p_, {})) {
      if (std::abs(ratio - 1) < kSameRatio) continue;
      Add(side * std::sqrt(ratio), side / std::sqrt(ratio));
      if (middle > 0) Add(middle * std::sqrt(ratio), middle / std::sqrt(ratio));
    }
  }

  // TL-SSD: boxes of the ratios alone, at each of the offsets.
  void AddShifted(const Doubles& min_sizes) {
    l_.Check(p_.offset_w_size() > 0 && p_.offset_h_size() > 0, "prior_box_param",
             "offset_w and offset_h must both be given");
    l_.Check(p_.max_size_size() == 0, "prior_box_param.max_size", "max_size has no boxes with offset_w and offset_h");
    const auto offset = [&](const char* field, float value) {
      l_.Check(value >= 0 && value <= 1, field, StrCat(field, " must be from 0 to 1, found ", value));
      return static_cast<double>(value);
    };
    for (const float x : p_.offset_w()) {
      for (const float y : p_.offset_h()) {
        for (const double size : min_sizes) {
          for (const double ratio : Ratios(l_, p_, {})) {
            if (std::abs(ratio - 1) < kSameRatio) continue;
            const double side = std::trunc(size);
            Add(offset("prior_box_param.offset_w", x), offset("prior_box_param.offset_h", y), side * std::sqrt(ratio),
                side / std::sqrt(ratio));
          }
        }
      }
    }
  }

  static constexpr double kHalfCell = 0.5;
  static constexpr double kLowerEdge = 1;
  static constexpr double kMostDense = 64;
  const LayerBuilder& l_;
  const PriorBoxParameter& p_;
  Ints image_;
  Doubles steps_;
  double offset_;
  Doubles boxes_;
};

void AddPriors(LayerBuilder& l) {
  const PriorBoxParameter& p = l.param().prior_box_param();
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  const Ints image = ImageSize(l, p);
  const Doubles steps = Steps(l, p, image);
  const Doubles boxes = CellBoxes(l, p, image, steps).Of();
  l.Check(!boxes.empty(), "prior_box_param", "no boxes: aspect_ratio must have another value than 1");
  l.SetTop(0, l.b().Add1("prior_box", {},
                         {{"map", Ints{l.shape(0)[2], l.shape(0)[3]}},
                          {"image", image},
                          {"boxes", boxes},
                          {"variances", Variances(l, p)},
                          {"step", steps},
                          {"clip", p.clip()},
                          {"bounded", p.fixed_size_size() > 0},
                          {"yx_order", p.yx_order()}}));
}

// One of the two forms of PriorBox's fields, and one fork's.
void CheckForm(const LayerBuilder& l, const PriorBoxParameter& p) {
  const bool is_fixed = p.fixed_size_size() > 0;
  l.Check(is_fixed || p.min_size_size() > 0, "prior_box_param.min_size",
          "prior_box_param.min_size must be given, or fixed_size and density");
  l.Check(!is_fixed || p.min_size_size() + p.max_size_size() == 0, "prior_box_param.fixed_size",
          "give fixed_size and density, or min_size and max_size; not both");
  l.Check(is_fixed || p.density_size() + p.fixed_ratio_size() == 0, "prior_box_param.fixed_size",
          "density and fixed_ratio need a fixed_size");
  l.Check(p.fixed_ratio_size() == 0 || p.aspect_ratio_size() == 0, "prior_box_param.fixed_ratio",
          "give fixed_ratio or aspect_ratio, not both");
  // Given several, the fork's own layer writes more boxes than its top has room for.
  l.Check(p.fixed_ratio_size() <= 1, "prior_box_param.fixed_ratio",
          StrCat("fixed_ratio takes one value, found ", p.fixed_ratio_size()));
  const int dialects = (p.use_default() ? 0 : 1) + (p.offset_w_size() + p.offset_h_size() > 0 ? 1 : 0) +
                       (p.tf() ? 1 : 0) + (p.faceboxes() ? 1 : 0) + (p.textboxes() ? 1 : 0) +
                       (p.denser_prior_boxes() ? 1 : 0) + (is_fixed ? 1 : 0);
  l.Check(
      dialects <= 1, "prior_box_param",
      "use_default, offset_w, tf, faceboxes, fixed_size, textboxes and denser_prior_boxes are of several forks; give "
      "those of one");
}

void BuildPriorBox(LayerBuilder& l) {
  const PriorBoxParameter& p = l.param().prior_box_param();
  l.Check(p.width_size() == 0 && p.height_size() == 0, "prior_box_param.width",
          "width and height are PriorBoxClustered's; PriorBox has min_size and aspect_ratio");
  CheckForm(l, p);
  AddPriors(l);
}

void BuildClustered(LayerBuilder& l) {
  const PriorBoxParameter& p = l.param().prior_box_param();
  l.Check(p.width_size() > 0, "prior_box_param.width", "prior_box_param.width and height must be given");
  l.Check(p.min_size_size() == 0 && p.max_size_size() == 0 && p.aspect_ratio_size() == 0, "prior_box_param",
          "PriorBoxClustered has width and height; min_size, max_size and aspect_ratio are PriorBox's");
  AddPriors(l);
}

}  // namespace

LayerDef PriorBoxLayer() {
  return {.type = "PriorBox", .max_bottoms = 2, .build = BuildPriorBox, .params = {"prior_box_param"}};
}

LayerDef PriorBoxClusteredLayer() {
  return {.type = "PriorBoxClustered", .max_bottoms = 2, .build = BuildClustered, .params = {"prior_box_param"}};
}

}  // namespace moka

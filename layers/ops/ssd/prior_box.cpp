// SSD's default boxes of one feature map: a constant that depends on shapes and fields only. For each cell, each
// min_size gives a square of it, a square of sqrt(min * max) if there are max_sizes, and a box of its area for each
// aspect ratio; sizes are truncated to whole pixels, as Caffe's SSD does.
#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "layers/ops/checks.h"
#include "layers/ops/ops.h"
#include "layers/ops/ssd/boxes.h"
#include "layers/ops/ssd/ops.h"

namespace moka {
namespace {

// Width and height of the boxes of one cell, in pixels.
std::vector<std::pair<double, double>> BoxSizes(const Attributes& a) {
  const auto& max_sizes = a.Get<Doubles>("max_sizes");
  std::vector<std::pair<double, double>> sizes;
  size_t s = 0;
  for (const double min_size : a.Get<Doubles>("min_sizes")) {
    const double side = std::trunc(min_size);
    sizes.emplace_back(side, side);
    if (!max_sizes.empty()) {
      const double middle = std::sqrt(side * std::trunc(max_sizes[s]));
      sizes.emplace_back(middle, middle);
    }
    for (const double ratio : a.Get<Doubles>("aspect_ratios")) {
      if (std::abs(ratio - 1) < 1e-6) continue;
      sizes.emplace_back(side * std::sqrt(ratio), side / std::sqrt(ratio));
    }
    ++s;
  }
  return sizes;
}

void CheckPair(const char* name, const Shape& pair) {
  if (pair.rank() == 2 && pair[0] >= 1 && pair[1] >= 1) return;
  throw Error(ErrorKind::kConfig,
              StrCat("prior_box: ", name, " must be a height and a width of at least 1, found ", pair.ToString()));
}

std::vector<TensorType> Infer(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount("prior_box", in, 0, 0);
  const Shape map = ShapeAttribute("prior_box", a, "map");
  CheckPair("map", map);
  CheckPair("image", ShapeAttribute("prior_box", a, "image"));
  const auto& max_sizes = a.Get<Doubles>("max_sizes");
  const size_t variances = a.Get<Doubles>("variances").size();
  if (!max_sizes.empty() && max_sizes.size() != a.Get<Doubles>("min_sizes").size()) {
    throw Error(ErrorKind::kConfig, StrCat("prior_box: ", max_sizes.size(), " max_sizes for ",
                                           a.Get<Doubles>("min_sizes").size(), " min_sizes"));
  }
  if ((variances != 1 && variances != 4) || a.Get<Doubles>("step").size() != 2) {
    throw Error(ErrorKind::kConfig, "prior_box: one or four variances and two steps are needed");
  }
  const Size values = Size(map[0]) * map[1] * static_cast<int64_t>(BoxSizes(a).size()) * 4;
  return {PlainType(DType::kFloat32, {1, 2, values.value()})};
}

void Reference(const Attributes& a, std::span<const RefTensor>, std::span<RefTensor> out) {
  FillPriorBoxes(a, View(out[0]));
}

std::vector<OpCase> Cases() {
  const auto make = [](const char* name, Doubles min_sizes, Doubles max_sizes, Doubles ratios, bool clip,
                       Doubles variances) {
    return OpCase{.name = name,
                  .inputs = {},
                  .attributes = {{"map", Ints{3, 5}},
                                 {"image", Ints{30, 40}},
                                 {"min_sizes", std::move(min_sizes)},
                                 {"max_sizes", std::move(max_sizes)},
                                 {"aspect_ratios", std::move(ratios)},
                                 {"variances", std::move(variances)},
                                 {"step", Doubles{10, 8}},
                                 {"offset", 0.5},
                                 {"clip", clip}},
                  .ranges = {}};
  };
  return {make("square", {12}, {}, {1}, false, {0.1}),
          make("ssd", {12.7}, {20}, {1, 2, 0.5, 3, 1.0 / 3}, false, {0.1, 0.1, 0.2, 0.2}),
          make("two_sizes_clipped", {8, 25}, {16, 40}, {1, 2}, true, {0.1})};
}

}  // namespace

void FillPriorBoxes(const Attributes& a, const RealsOut& out) {
  const Ints& map = a.Get<Ints>("map");
  const auto height = static_cast<double>(a.Get<Ints>("image")[0]);
  const auto width = static_cast<double>(a.Get<Ints>("image")[1]);
  const Doubles& step = a.Get<Doubles>("step");
  const Doubles& variances = a.Get<Doubles>("variances");
  const double offset = a.Float("offset");
  const auto sizes = BoxSizes(a);
  const double low = a.Bool("clip") ? 0 : -INFINITY;
  const double high = a.Bool("clip") ? 1 : INFINITY;
  int64_t i = 0;
  for (int64_t h = 0; h < map[0]; ++h) {
    for (int64_t w = 0; w < map[1]; ++w) {
      const double x = (static_cast<double>(w) + offset) * step[1];
      const double y = (static_cast<double>(h) + offset) * step[0];
      for (const auto& [box_width, box_height] : sizes) {
        out.Set(i++, std::clamp((x - box_width / 2) / width, low, high));
        out.Set(i++, std::clamp((y - box_height / 2) / height, low, high));
        out.Set(i++, std::clamp((x + box_width / 2) / width, low, high));
        out.Set(i++, std::clamp((y + box_height / 2) / height, low, high));
      }
    }
  }
  for (int64_t k = 0; k < i; ++k) out.Set(i + k, variances[static_cast<size_t>(k) % variances.size()]);
}

OpDef PriorBoxOp() {
  return {.name = "prior_box",
          .doc =
              "-> prior float32 [1,2,H*W*boxes*4]: default boxes of every cell as fractions of the image (xmin, "
              "ymin, xmax, ymax), then their variances.",
          .attributes = {{"map", std::nullopt, "cells: height and width of the feature map"},
                         {"image", std::nullopt, "pixels: height and width of the image"},
                         {"min_sizes", std::nullopt, "pixels, truncated: sides of the squares"},
                         {"max_sizes", Doubles{}, "pixels, truncated: one a min_size, or none"},
                         {"aspect_ratios", Doubles{1}, "width over height; 1 is the square itself"},
                         {"variances", Doubles{0.1}, "one for all coordinates, or four"},
                         {"step", std::nullopt, "pixels a cell: vertical and horizontal"},
                         {"offset", 0.5, "where the centre lies in its cell"},
                         {"clip", false, "whether boxes are cut to the image"}},
          .infer = Infer,
          .reference = Reference,
          .precision = Precision::kKeep32,
          .cases = Cases};
}

}  // namespace moka

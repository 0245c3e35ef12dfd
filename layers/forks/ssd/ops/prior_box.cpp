// Default boxes of one feature map: a constant that depends on shapes and fields only. The layer type says which boxes
// a cell has; here they are laid over the cells.
#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/boxes.h"
#include "layers/forks/ssd/ops/prior_box.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

void CheckPriorBoxPair(const char* name, const Shape& pair) {
  if (pair.rank() == 2 && pair[0] >= 1 && pair[1] >= 1) return;
  throw Error(ErrorKind::kConfig,
              StrCat("prior_box: ", name, " must be a height and a width of at least 1, found ", pair.ToString()));
}

std::vector<TensorType> InferPriorBox(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount("prior_box", in, 0, 0);
  const Shape map = ShapeAttribute("prior_box", a, "map");
  CheckPriorBoxPair("map", map);
  CheckPriorBoxPair("image", ShapeAttribute("prior_box", a, "image"));
  const size_t variances = a.Get<Doubles>("variances").size();
  const size_t numbers = a.Get<Doubles>("boxes").size();
  if (numbers == 0 || numbers % 4 != 0) {
    throw Error(ErrorKind::kConfig, StrCat("prior_box: boxes have four numbers each, found ", numbers));
  }
  if ((variances != 1 && variances != 4) || a.Get<Doubles>("step").size() != 2) {
    throw Error(ErrorKind::kConfig, "prior_box: one or four variances and two steps are needed");
  }
  const Size values = Size(map[0]) * map[1] * static_cast<int64_t>(numbers);
  return {PlainType(DType::kFloat32, {1, 2, values.value()})};
}

void PriorBoxReference(const Attributes& a, std::span<const RefTensor>, std::span<RefTensor> out) {
  FillPriorBoxes(a, View(out[0]));
}

std::vector<OpCase> PriorBoxCases() {
  const auto make = [](const char* name, Doubles boxes, bool clip, Doubles variances, bool yx_order,
                       bool bounded = false) {
    return OpCase{.name = name,
                  .inputs = {},
                  .attributes = {{"map", Ints{3, 5}},
                                 {"image", Ints{30, 40}},
                                 {"boxes", std::move(boxes)},
                                 {"variances", std::move(variances)},
                                 {"step", Doubles{10, 8}},
                                 {"clip", clip},
                                 {"bounded", bounded},
                                 {"yx_order", yx_order}},
                  .ranges = {}};
  };
  return {make("square", {0.5, 0.5, 12, 12}, false, {0.1}, false),
          make("three", {0.5, 0.5, 12, 12, 0.5, 1, 20, 10, 0.25, 0.5, 7, 15}, false, {0.1, 0.1, 0.2, 0.2}, false),
          make("clipped_rows_first", {0.5, 0.5, 25, 40}, true, {0.1}, true),
          make("bounded", {0.5, 0.5, 25, 40, 2.5, -1.5, 12, 12}, false, {0.1}, false, true)};
}

}  // namespace

void FillPriorBoxes(const Attributes& a, const RealsOut& out) {
  const Ints& map = a.Get<Ints>("map");
  const auto height = static_cast<double>(a.Get<Ints>("image")[0]);
  const auto width = static_cast<double>(a.Get<Ints>("image")[1]);
  const Doubles& step = a.Get<Doubles>("step");
  const Doubles& variances = a.Get<Doubles>("variances");
  const Doubles& boxes = a.Get<Doubles>("boxes");
  const bool yx_order = a.Bool("yx_order");
  const double low = a.Bool("clip") ? 0 : -INFINITY;
  const double high = a.Bool("clip") ? 1 : INFINITY;
  const double least = a.Bool("bounded") ? 0 : -INFINITY;
  const double most = a.Bool("bounded") ? 1 : INFINITY;
  int64_t i = 0;
  for (int64_t h = 0; h < map[0]; ++h) {
    for (int64_t w = 0; w < map[1]; ++w) {
      for (size_t k = 0; k < boxes.size(); k += 4) {
        const double x = (static_cast<double>(w) + boxes[k]) * step[1];
        const double y = (static_cast<double>(h) + boxes[k + 1]) * step[0];
        const double left = std::clamp(std::max((x - boxes[k + 2] / 2) / width, least), low, high);
        const double top = std::clamp(std::max((y - boxes[k + 3] / 2) / height, least), low, high);
        const double right = std::clamp(std::min((x + boxes[k + 2] / 2) / width, most), low, high);
        const double bottom = std::clamp(std::min((y + boxes[k + 3] / 2) / height, most), low, high);
        out.Set(i++, yx_order ? top : left);
        out.Set(i++, yx_order ? left : top);
        out.Set(i++, yx_order ? bottom : right);
        out.Set(i++, yx_order ? right : bottom);
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
                         {"boxes", std::nullopt,
                          "the boxes of a cell, four numbers each: centre (horizontal, vertical) in cells from the "
                          "cell's corner, width and height in pixels"},
                         {"variances", Doubles{0.1}, "one for all coordinates, or four"},
                         {"step", std::nullopt, "pixels a cell: vertical and horizontal"},
                         {"clip", false, "whether boxes are cut to the image"},
                         {"bounded", false, "whether xmin and ymin are at least 0, xmax and ymax at most 1"},
                         {"yx_order", false, "whether coordinates are ymin, xmin, ymax, xmax"}},
          .infer = InferPriorBox,
          .reference = PriorBoxReference,
          .precision = Precision::kKeep32,
          .cases = PriorBoxCases};
}

}  // namespace moka

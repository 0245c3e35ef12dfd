// Lists of boxes from a grid of coverage (DetectNet's clustering.py). Each cell of one class whose coverage is at least
// the threshold proposes its box. Detections are those that OpenCV's groupRectangles leaves, with the logarithm of
// their group's size; the truth is every box once. 50 boxes an image at most, the others are zero. Numbers pass through
// half precision on their way, as they do there.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/half.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/detectnet/ops/rectangle_groups.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kClusterBoxesOp = "cluster_boxes";
constexpr int64_t kClusterBoxesMaxBoxes = 50;
constexpr int64_t kBoxColumns = 5;

// Rows and columns of the grid that lie over the image.
struct Extent {
  int64_t rows;
  int64_t columns;
};
Extent CellsUsed(const Attributes& a) {
  return {a.Int("image_height") / a.Int("stride"), a.Int("image_width") / a.Int("stride")};
}

std::vector<TensorType> InferClusterBoxes(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kClusterBoxesOp, in, 2, 2);
  CheckFloat(kClusterBoxesOp, "coverage", in[0]);
  CheckFloat(kClusterBoxesOp, "boxes", in[1]);
  const Shape& x = in[0].shape;
  const Shape& boxes = in[1].shape;
  if (x.rank() != 4 || boxes.rank() != 4 || boxes[0] != x[0] || boxes[1] < 4 || a.Int("channel") < 0 ||
      a.Int("channel") >= x[1]) {
    throw Error(ErrorKind::kConfig,
                StrCat(kClusterBoxesOp, ": coverage [N,classes,H,W] must have the class ", a.Int("channel"),
                       " and boxes must be [N,4,H,W], found ", x.ToString(), " and ", boxes.ToString()));
  }
  if (a.Int("stride") < 1 || a.Int("image_height") < a.Int("stride") || a.Int("image_width") < a.Int("stride")) {
    throw Error(ErrorKind::kConfig, StrCat(kClusterBoxesOp, ": an image of ", a.Int("image_height"), " x ",
                                           a.Int("image_width"), " pixels has no cell of ", a.Int("stride")));
  }
  const Extent used = CellsUsed(a);
  if (boxes[2] < std::min(used.rows, x[2]) || boxes[3] < std::min(used.columns, x[3])) {
    throw Error(ErrorKind::kConfig, StrCat(kClusterBoxesOp, ": there must be a box for each of the ", used.rows, " x ",
                                           used.columns, " cells, found ", boxes.ToString()));
  }
  return {PlainType(DType::kFloat32, Shape{x[0], kClusterBoxesMaxBoxes, kBoxColumns})};
}

using Corners = std::array<double, 4>;  // x1, y1, x2, y2

// The boxes of image n, row by row.
std::vector<Corners> ClusterBoxesProposals(const Attributes& a, std::span<const RefTensor> in, int64_t n) {
  const Shape& x = in[0].type.shape;
  const Shape& boxes = in[1].type.shape;
  const Extent used = CellsUsed(a);
  const double width = static_cast<double>(a.Int("image_width")) / static_cast<double>(used.columns);
  const double height = static_cast<double>(a.Int("image_height")) / static_cast<double>(used.rows);
  const auto threshold = static_cast<float>(a.Float("threshold"));
  const double* coverage = in[0].values.data() + (n * x[1] + a.Int("channel")) * x[2] * x[3];
  std::vector<Corners> proposals;
  for (int64_t i = 0; i < std::min(used.rows, x[2]); ++i) {
    for (int64_t j = 0; j < std::min(used.columns, x[3]); ++j) {
      const auto value = static_cast<float>(coverage[i * x[3] + j]);
      if (a.Bool("is_truth") ? !(value > 0) : !(value >= threshold)) continue;
      Corners corners{};
      for (int64_t k = 0; k < 4; ++k) {
        const double offset = in[1].values[static_cast<size_t>(((n * boxes[1] + k) * boxes[2] + i) * boxes[3] + j)];
        const double from = k % 2 == 0 ? static_cast<double>(j) * width : static_cast<double>(i) * height;
        corners[static_cast<size_t>(k)] = offset + from;
      }
      proposals.push_back(corners);
    }
  }
  return proposals;
}

using Row = std::array<double, kBoxColumns>;

std::vector<Row> Distinct(const std::vector<Corners>& proposals) {
  std::vector<Corners> kept;
  for (const Corners& corners : proposals) {
    if (static_cast<int64_t>(kept.size()) < kClusterBoxesMaxBoxes && std::ranges::find(kept, corners) == kept.end()) {
      kept.push_back(corners);
    }
  }
  std::vector<Row> rows;
  rows.reserve(kept.size());
  for (const auto& [x1, y1, x2, y2] : kept) rows.push_back({x1, y1, x2, y2, 0});
  return rows;
}

std::vector<Row> Voted(const Attributes& a, const std::vector<Corners>& proposals) {
  std::vector<Row> rows;
  // Boxes that are zero throughout are none: a net that has learned nothing.
  if (std::ranges::all_of(proposals, [](const Corners& c) { return c == Corners{}; })) return rows;
  std::vector<std::array<int64_t, 4>> rectangles;
  rectangles.reserve(proposals.size());
  for (const auto& [x1, y1, x2, y2] : proposals) {
    rectangles.push_back({NearestWhole(x1), NearestWhole(y1), NearestWhole(x2 - x1), NearestWhole(y2 - y1)});
  }
  for (const auto& [rectangle, count] : GroupedRectangles(rectangles, a.Int("group_threshold"), a.Float("group_eps"))) {
    const auto [x, y, w, h] = rectangle;
    if (h < a.Int("least_height")) continue;
    rows.push_back({static_cast<double>(x), static_cast<double>(y), static_cast<double>(x + w),
                    static_cast<double>(y + h), std::log(static_cast<double>(count))});
  }
  return rows;
}

double ThroughHalf(double value) { return static_cast<double>(FloatOfHalf(HalfOfFloat(static_cast<float>(value)))); }

void ClusterBoxesReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t n = 0; n < in[0].type.shape[0]; ++n) {
    const std::vector<Corners> proposals = ClusterBoxesProposals(a, in, n);
    const std::vector<Row> rows = a.Bool("is_truth") ? Distinct(proposals) : Voted(a, proposals);
    double* to = out[0].values.data() + n * kClusterBoxesMaxBoxes * kBoxColumns;
    for (size_t i = 0; i < std::min(rows.size(), static_cast<size_t>(kClusterBoxesMaxBoxes)); ++i) {
      to = std::ranges::transform(rows[i], to, ThroughHalf).out;
    }
  }
}

std::vector<OpCase> ClusterBoxesCases() {
  const auto one = [](const char* name, const Attributes& more) {
    const Attributes sizes{{"image_height", int64_t{20}}, {"image_width", int64_t{32}}, {"stride", int64_t{4}}};
    return OpCase{.name = name,
                  .inputs = {Float32({2, 2, 6, 8}), Float32({2, 4, 6, 8})},
                  .attributes = With(sizes, more),
                  .low = 0,
                  .high = 1,
                  .ranges = {{1, -30, 30}}};
  };
  return {one("grouped", {{"channel", int64_t{1}}, {"group_eps", 3.0}, {"least_height", int64_t{2}}}),
          one("each", {{"group_threshold", int64_t{0}}, {"threshold", 0.9}}), one("truth", {{"is_truth", true}})};
}

}  // namespace

OpDef ClusterBoxesOp() {
  return {.name = "cluster_boxes",
          .doc =
              "(coverage [N,classes,H,W], boxes [N,4,H,W]: corners from each cell's) -> [N,50,5]: x1, y1, x2, y2 and "
              "the logarithm of how many cells agree (0 for the truth), of one class; rows left over are 0.",
          .attributes = {{"image_height", {}, "of the image the grid lies over, pixels"},
                         {"image_width", {}, "as image_height"},
                         {"stride", {}, "side of a cell, pixels"},
                         {"channel", int64_t{0}, "which class"},
                         {"is_truth", false, "take each box once, where there is any coverage"},
                         {"threshold", 0.5, "the least coverage that proposes a box"},
                         {"group_threshold", int64_t{1}, "cells that are too few for a box; 0: no groups"},
                         {"group_eps", 0.02, "how unlike boxes of a group may be"},
                         {"least_height", int64_t{0}, "of a box, pixels"}},
          .infer = InferClusterBoxes,
          .reference = ClusterBoxesReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = ClusterBoxesCases};
}

}  // namespace moka

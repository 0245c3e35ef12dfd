// YOLO v1's loss (Redmon et al., arXiv 1506.02640) as yeahkun's caffe-yolo has it. Training follows `slope`, which is
// not the derivative of the loss that is told: the loss has squares of the differences, averaged over objects (or over
// the boxes without one), with the goal 1 for the objectness of a box with an object; the slope has the differences,
// divided by the items, with the box's overlap as that goal. So this op has no gradient; the layer gives slope to x.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/yolo/ops/squares.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr double kSquaresLossFarthest = 20;  // from the object a box may be that does not overlap it

std::vector<TensorType> InferSquaresLoss(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("squares_loss", in, 2, 2);
  (void)Squares("squares_loss", attributes, in[0], in[1]);
  return {PlainType(StatisticsType(in[0].dtype), Shape{}), PlainType(in[0].dtype, in[0].shape)};
}

double Square(double x) { return x * x; }

// The box of a square that overlaps the object most, the nearest one if none does, and its overlap.
std::pair<int64_t, double> Best(const Squares& squares, const std::vector<double>& x, int64_t item,
                                const SquareObject& object) {
  const YoloBox& truth = object.object.box;
  double best_overlap = 0;
  double least = kSquaresLossFarthest;
  int64_t best = 0;
  for (int64_t k = 0; k < squares.boxes(); ++k) {
    const YoloBox box = squares.Predicted(x, item, k, object.square);
    const double overlap = Intersection(box, truth) > 0 ? Iou(box, truth) : 0;
    const double distance = std::sqrt(Square(box.x - truth.x) + Square(box.y - truth.y) + Square(box.w - truth.w) +
                                      Square(box.h - truth.h));
    if (best_overlap > 0 || overlap > 0) {
      if (overlap > best_overlap) best = k;
      best_overlap = std::max(best_overlap, overlap);
    } else if (distance < least) {
      least = distance;
      best = k;
    }
  }
  return {best, best_overlap};
}

void SquaresLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Squares squares("squares_loss", attributes, in[0].type, in[1].type);
  const std::vector<double>& x = in[0].values;
  std::vector<double>& slope = out[1].values;
  std::ranges::fill(slope, 0.0);
  double empty_loss = 0;
  double loss = 0;
  double objects = 0;
  const double no_object = attributes.Float("noobject_scale");
  for (int64_t item = 0; item < squares.items(); ++item) {
    for (int64_t square = 0; square < squares.count(); ++square) {
      for (int64_t k = 0; k < squares.boxes(); ++k) {
        const size_t at = squares.Objectness(item, k, square);
        empty_loss += no_object * Square(x[at]);
        slope[at] = no_object * x[at];
      }
    }
    for (const SquareObject& object : squares.Objects(in[1].values, item)) {
      ++objects;
      for (int64_t c = 0; c < squares.classes(); ++c) {
        const size_t at = squares.Class(item, c, object.square);
        const double error = x[at] - (c == object.object.label ? 1 : 0);
        loss += attributes.Float("class_scale") * Square(error);
        slope[at] = attributes.Float("class_scale") * error;
      }
      const auto [best, overlap] = Best(squares, x, item, object);
      const size_t at = squares.Objectness(item, best, object.square);
      empty_loss -= no_object * Square(x[at]);
      loss += attributes.Float("object_scale") * Square(x[at] - 1);
      slope[at] = attributes.Float("object_scale") * (x[at] - overlap);
      const std::vector<double> goal = squares.Goal(object.object.box, object.square);
      for (int64_t o = 0; o < 4; ++o) {
        const size_t corner = squares.Corner(item, best, o, object.square);
        const double error = x[corner] - goal[static_cast<size_t>(o)];
        loss += attributes.Float("coord_scale") * Square(error);
        slope[corner] = attributes.Float("coord_scale") * error;
      }
    }
  }
  const double boxes = static_cast<double>(squares.items() * squares.count() * squares.boxes());
  out[0].values[0] = loss / std::max(objects, 1.0) + empty_loss / std::max(boxes - objects, 1.0);
  for (double& value : slope) value /= static_cast<double>(squares.items());
}

std::vector<OpCase> SquaresLossCases() {
  const auto one = [](const char* name, bool sqrt, bool constrained) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 52}), Float32({2, 28})},
                  .attributes = {{"side", int64_t{2}},
                                 {"classes", int64_t{3}},
                                 {"objects", int64_t{2}},
                                 {"sqrt", sqrt},
                                 {"constrained", constrained}},
                  .low = 0.1,
                  .high = 0.9};
  };
  return {one("roots", true, true), one("plain", false, false)};
}

}  // namespace

OpDef SquaresLossOp() {
  std::vector<AttributeSpec> attributes = SquareAttributes();
  attributes.insert(attributes.end(), {{"object_scale", 1.0, "weight of the objectness of boxes with an object"},
                                       {"noobject_scale", 0.5, "weight of the objectness of the others"},
                                       {"class_scale", 1.0, "weight of the classes"},
                                       {"coord_scale", 5.0, "weight of the boxes"}});
  return {.name = "squares_loss",
          .doc =
              "(x [N,S*S*(C+5K)], label [N,7*S*S]) -> loss (scalar), slope like x: YOLO v1's loss and its hand-made "
              "gradient.",
          .attributes = std::move(attributes),
          .infer = InferSquaresLoss,
          .reference = SquaresLossReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kCells,
          .cases = SquaresLossCases};
}

}  // namespace moka

// The part that YOLO's layers share: anchors, and a loss whose gradient is a rule of its own.
#pragma once

#include <string>

#include "layers/net/fields.h"

namespace moka {

// The numbers of a `biases` field, widths and heights in turn. Errors: kConfig at the field unless they are `anchors`
// positive pairs (-1: any number of at least 1).
template <class Biases>
Doubles AnchorsOf(const LayerBuilder& l, const std::string& field, const Biases& biases, int64_t anchors) {
  l.Check(biases.size() % 2 == 0 && biases.size() > 0 && (anchors < 0 || biases.size() == 2 * anchors), field,
          StrCat(field, " must give a width and a height for ",
                 anchors < 0 ? "each anchor" : StrCat(anchors, " anchors"), ", found ", biases.size(), " numbers"));
  Doubles values;
  for (const float value : biases) {
    l.Check(Finite(l, field, value) > 0, field, StrCat(field, " must be above 0, found ", value));
    values.push_back(static_cast<double>(value));
  }
  return values;
}

// Bottom 0 must be a map of `anchors` anchors of `length` channels.
void CheckMap(const LayerBuilder& l, int bottom, int64_t anchors, int64_t length);

// YOLO v1's DetectionLoss and EvalDetection, whose fields have the names of other layers'.
void BuildSquaresLoss(LayerBuilder& l);
void BuildEvalSquares(LayerBuilder& l);
// "obj", "prob" or "multiply".
std::string ScoreName(EvalDetectionParameter::ScoreType type);

// Top 0 is `loss`; its gradient at x is loss weight * slope.
void SetSlopedLoss(LayerBuilder& l, ValueId x, ValueId loss, ValueId slope);

}  // namespace moka

// YOLO v1's predictions and labels (Redmon et al., arXiv 1506.02640) as yeahkun's caffe-yolo lays them out. An item has
// S x S squares; each plane has a value for each square: C classes, K objectnesses, then x, y, w, h of each of K boxes.
// A label has a difficult flag, an object flag and a class for each square, then x, y, w, h of each square's object one
// after another.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "layers/forks/yolo/ops/boxes.h"

namespace moka {

struct SquareObject {
  YoloObject object;
  int64_t square = 0;
  bool difficult = false;
};

class Squares {
 public:
  // From the attributes side, classes, objects, sqrt and constrained. Errors: kConfig unless x and label, the two first
  // inputs, have as many values an item as these say.
  Squares(std::string_view op, const Attributes& attributes, const TensorType& x, const TensorType& label);

  int64_t items() const { return items_; }
  int64_t count() const { return side_ * side_; }
  int64_t classes() const { return classes_; }
  // K, the boxes predicted a square (the attribute "objects").
  int64_t boxes() const { return boxes_; }
  // Places in x: of the score of a class, of an objectness, of a number of a box.
  size_t Class(int64_t item, int64_t c, int64_t square) const { return Plane(item, c, square); }
  size_t Objectness(int64_t item, int64_t k, int64_t square) const { return Plane(item, classes_ + k, square); }
  size_t Corner(int64_t item, int64_t k, int64_t o, int64_t square) const {
    return Plane(item, classes_ + boxes_ + 4 * k + o, square);
  }
  // A predicted box in parts of the image.
  YoloBox Predicted(const std::vector<double>& x, int64_t item, int64_t k, int64_t square) const;
  // Returns the goal for x, y, w, h of a prediction for this box in this square.
  std::vector<double> Goal(const YoloBox& box, int64_t square) const;
  // An item's objects, those of no class left out.
  std::vector<SquareObject> Objects(const std::vector<double>& label, int64_t item) const;

 private:
  size_t Plane(int64_t item, int64_t plane, int64_t square) const {
    return static_cast<size_t>((item * (classes_ + 5 * boxes_) + plane) * count() + square);
  }

  int64_t items_ = 0;
  int64_t side_ = 0;
  int64_t classes_ = 0;
  int64_t boxes_ = 0;
  bool has_roots_ = false;       // w and h are square roots
  bool is_constrained_ = false;  // x and y are places in the square
};

// The attributes that a Squares is made of.
std::vector<AttributeSpec> SquareAttributes();

}  // namespace moka

// Indices into yeahkun's flat rows: classes, then objectness, then boxes, each by square.
#include "layers/forks/yolo/ops/squares.h"

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "layers/ops/checks.h"

namespace moka {

Squares::Squares(std::string_view op, const Attributes& attributes, const TensorType& x, const TensorType& label)
    : side_(attributes.Int("side")),
      classes_(attributes.Int("classes")),
      boxes_(attributes.Int("objects")),
      has_roots_(attributes.Bool("sqrt")),
      is_constrained_(attributes.Bool("constrained")) {
  CheckFloat(op, "x", x);
  CheckFloat(op, "label", label);
  constexpr int64_t kMost = 1 << 20;
  const auto is_possible = [](int64_t n) { return n >= 1 && n <= kMost; };
  if (!is_possible(side_) || !is_possible(classes_) || !is_possible(boxes_)) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": side ", side_, ", classes ", classes_, " and objects ", boxes_,
                                           " must be from 1 to ", kMost));
  }
  items_ = x.shape.rank() > 0 ? x.shape[0] : 0;
  const Size squares = Size(side_) * side_;
  const int64_t values = (squares * (classes_ + 5 * boxes_)).value();
  const int64_t marks = (squares * int64_t{7}).value();
  const auto fits = [&](const Shape& shape, int64_t count) {
    return shape.rank() > 0 && shape[0] == items_ && shape[0] > 0 && shape.Count(1, shape.rank()) == count;
  };
  if (fits(x.shape, values) && fits(label.shape, marks)) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", side_, " x ", side_, " squares of ", classes_, " classes and ",
                                         boxes_, " boxes need x [N,", values, "] and label [N,", marks, "], found ",
                                         x.shape.ToString(), " and ", label.shape.ToString()));
}

YoloBox Squares::Predicted(const std::vector<double>& x, int64_t item, int64_t k, int64_t square) const {
  const auto value = [&](int64_t o) { return x[Corner(item, k, o, square)]; };
  YoloBox box{value(0), value(1), value(2), value(3)};
  const auto side = static_cast<double>(side_);
  if (is_constrained_) {
    box.x = (static_cast<double>(square % side_) + box.x) / side;
    box.y = (static_cast<double>(square / side_) + box.y) / side;
  }
  if (has_roots_) {
    box.w *= box.w;
    box.h *= box.h;
  }
  return box;
}

std::vector<double> Squares::Goal(const YoloBox& box, int64_t square) const {
  std::vector<double> goal{box.x, box.y, box.w, box.h};
  if (is_constrained_) {
    goal[0] = box.x * static_cast<double>(side_) - static_cast<double>(square % side_);
    goal[1] = box.y * static_cast<double>(side_) - static_cast<double>(square / side_);
  }
  if (has_roots_) {
    goal[2] = std::sqrt(std::max(box.w, 0.0));
    goal[3] = std::sqrt(std::max(box.h, 0.0));
  }
  return goal;
}

std::vector<SquareObject> Squares::Objects(const std::vector<double>& label, int64_t item) const {
  std::vector<SquareObject> objects;
  const double* marks = label.data() + static_cast<size_t>(item * count() * 7);
  for (int64_t square = 0; square < count(); ++square) {
    const double c = marks[2 * count() + square];
    if (marks[count() + square] == 0 || !(c > -1 && c < static_cast<double>(classes_))) continue;
    const double* box = marks + 3 * count() + 4 * square;
    objects.push_back({{{box[0], box[1], box[2], box[3]}, static_cast<int64_t>(c)}, square, marks[square] == 1});
  }
  return objects;
}

std::vector<AttributeSpec> SquareAttributes() {
  return {{"side", {}, "squares on a side of the picture"},
          {"classes", {}, "number of classes"},
          {"objects", {}, "boxes a square"},
          {"sqrt", true, "whether w and h are predicted as their square roots"},
          {"constrained", false, "whether x and y are predicted as places in the square"}};
}

}  // namespace moka

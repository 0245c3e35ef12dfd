// YOLO v2's loss (Redmon & Farhadi, arXiv 1612.08242) as the Caffe ports have it. Training follows `slope`, a rule made
// by hand: for each anchor of each cell what is to be subtracted from its channels; the loss that is told is the sum of
// its squares, whose derivative it is not. So this op has no gradient; the layer gives slope to the bottom.
//
// Let p be the sigmoid of the objectness. Every anchor gets noobject_scale * p * p(1-p), none if it overlaps an object
// by more than thresh. Each object then rules the anchor of its cell whose size fits best: box, objectness, classes.
// The two ports ("rows", Intel; "lists", eric612's) read labels from different forms and differ in the object's rules:
// Intel bounds each residual of the box by 1 and pulls the objectness with 2 (1-p)^3 p(1-p), the other has plain
// residuals (times 2 - w h without rescore) and pulls it to the overlap (rescore) or 1.
//
// If there is a tree of classes (choasup's port; rows), each group has a softmax of its own and an object rules its
// class's group and those of the class's ancestors. An object whose centre is beyond 100000 has a class alone: it rules
// the anchor of the image that most holds it to be there, and nothing else of the image counts.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/yolo/ops/class_tree.h"
#include "layers/forks/yolo/ops/grid.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

YoloGrid RegionLossGrid(const Attributes& attributes, const Shape& x) {
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size() / 2);
  return GridOf("region_loss", x, anchors, 5 + attributes.Int("classes"));
}

std::vector<TensorType> InferRegionLoss(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("region_loss", in, 2, 2);
  CheckFloat("region_loss", "x", in[0]);
  CheckFloat("region_loss", "label", in[1]);
  const YoloGrid grid = RegionLossGrid(attributes, in[0].shape);
  const std::string& form = attributes.String("form");
  const int64_t unit = form == "rows" ? 8 : 5 * grid.images;
  if ((form != "rows" && form != "lists") || in[1].shape.Count() % unit != 0 || attributes.Int("classes") < 1) {
    throw Error(ErrorKind::kConfig, StrCat("region_loss: labels as ", form, " come ", unit, " at a time, found ",
                                           in[1].shape.ToString(), "; classes must be at least 1"));
  }
  const Ints& parents = attributes.Get<Ints>("parents");
  const auto classes = static_cast<size_t>(attributes.Int("classes"));
  if (!parents.empty() && (form != "rows" || parents.size() != classes || !ClassTree::IsTree(parents))) {
    throw Error(ErrorKind::kConfig,
                StrCat("region_loss: a tree, for labels as rows, has a parent for each of ", classes,
                       " classes, which comes before it or is -1; found ", parents.size()));
  }
  for (const int64_t c : attributes.Get<Ints>("class_map")) {
    if (c >= 0 && c < attributes.Int("classes")) continue;
    throw Error(ErrorKind::kConfig, StrCat("region_loss: class_map names ", c, ", none of ", classes, " classes"));
  }
  return {PlainType(StatisticsType(in[0].dtype), Shape{}), PlainType(in[0].dtype, in[0].shape)};
}

class RegionLoss {
 public:
  RegionLoss(const Attributes& attributes, const RefTensor& x)
      : attributes_(attributes),
        grid_(RegionLossGrid(attributes, x.type.shape)),
        anchors_(attributes.Get<Doubles>("anchors")),
        tree_(attributes.Get<Ints>("parents"), attributes.Int("classes")),
        is_intel_(attributes.String("form") == "rows"),
        values_(x.values) {
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      for (const int64_t c : {0, 1, 4}) values_[grid_.Channel(at, c)] = YoloSigmoid(values_[grid_.Channel(at, c)]);
      for (const ClassTree::Group& group : tree_.groups()) {
        SoftmaxInPlace(values_.data() + grid_.Channel(at, 5 + group.first), group.size, grid_.Cells());
      }
    });
  }

  // slope of x, not yet divided by the images; 0 before.
  void Slope(const std::vector<std::vector<YoloObject>>& objects, std::vector<double>& slope) const {
    std::vector<const YoloObject*> only(objects.size(), nullptr);  // the class of a whole image
    for (size_t image = 0; image < objects.size(); ++image) {
      const auto found = std::ranges::find_if_not(objects[image], [](const YoloObject& o) { return HasPlace(o.box); });
      if (found != objects[image].end()) only[image] = &*found;
    }
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      if (only[static_cast<size_t>(image)] != nullptr) {
        slope[grid_.Channel(at, 4)] = NoObject(at);
        return;
      }
      const YoloBox box = Predicted(at, anchor, row, column);
      double best = 0;
      for (const YoloObject& object : objects[static_cast<size_t>(image)]) {
        const double overlap = Iou(box, object.box);
        if (overlap > best) best = overlap;
      }
      slope[grid_.Channel(at, 4)] = best > attributes_.Float("thresh") ? 0 : NoObject(at);
    });
    for (int64_t image = 0; image < grid_.images; ++image) {
      if (const YoloObject* const object = only[static_cast<size_t>(image)]) {
        RuleImage(image, object->label, slope);
        continue;
      }
      for (const YoloObject& object : objects[static_cast<size_t>(image)]) Rule(image, object, slope);
    }
  }

 private:
  double NoObject(size_t at) const {
    const double p = values_[grid_.Channel(at, 4)];
    return attributes_.Float("noobject_scale") * p * p * (1 - p);
  }

  // Returns the probability of a class, which is the product over it and its ancestors.
  double Probability(size_t at, int64_t c) const {
    double p = 1;
    for (; c >= 0; c = tree_.parent(c)) p *= values_[grid_.Channel(at, 5 + c)];
    return p;
  }

  // The class belongs somewhere in the image: to the anchor, first in the order of cells, that holds it most probable.
  void RuleImage(int64_t image, int64_t label, std::vector<double>& slope) const {
    size_t best = grid_.At(image, 0, 0, 0);
    double most = 0;
    for (int64_t row = 0; row < grid_.height; ++row) {
      for (int64_t column = 0; column < grid_.width; ++column) {
        for (int64_t anchor = 0; anchor < grid_.anchors; ++anchor) {
          const size_t at = grid_.At(image, anchor, row, column);
          const double p = values_[grid_.Channel(at, 4)] * Probability(at, label);
          if (p > most) best = at;
          most = std::max(most, p);
        }
      }
    }
    RuleClass(best, label, slope);
    constexpr double kLeast = static_cast<double>(0.3F);  // of the objectness
    const double p = values_[grid_.Channel(best, 4)];
    const double pull = p < kLeast ? kLeast - p : 0;
    slope[grid_.Channel(best, 4)] = -attributes_.Float("object_scale") * pull * p * (1 - p);
  }

  void RuleClass(size_t at, int64_t label, std::vector<double>& slope) const {
    for (int64_t own = label; own >= 0; own = tree_.parent(own)) {
      const ClassTree::Group& group = tree_.group_of(own);
      for (int64_t c = group.first; c < group.first + group.size; ++c) {
        const size_t i = grid_.Channel(at, 5 + c);
        slope[i] = ClassSlope(attributes_.Float("class_scale"), c == own, values_[i]);
      }
    }
  }

  YoloBox Predicted(size_t at, int64_t anchor, int64_t row, int64_t column) const {
    const auto value = [&](int64_t channel) { return values_[grid_.Channel(at, channel)]; };
    return {(static_cast<double>(column) + value(0)) / static_cast<double>(grid_.width),
            (static_cast<double>(row) + value(1)) / static_cast<double>(grid_.height),
            std::exp(value(2)) * Width(anchor) / static_cast<double>(grid_.width),
            std::exp(value(3)) * Height(anchor) / static_cast<double>(grid_.height)};
  }
  double Width(int64_t anchor) const { return anchors_[static_cast<size_t>(2 * anchor)]; }
  double Height(int64_t anchor) const { return anchors_[static_cast<size_t>(2 * anchor + 1)]; }

  // The anchor of a cell whose box (or, with bias_match, whose own size) fits the object's size best; -1: none
  // overlaps.
  int64_t BestAnchor(int64_t image, int64_t row, int64_t column, const YoloBox& truth) const {
    int64_t best = -1;
    double best_overlap = 0;
    for (int64_t anchor = 0; anchor < grid_.anchors; ++anchor) {
      YoloBox box = Predicted(grid_.At(image, anchor, row, column), anchor, row, column);
      if (attributes_.Bool("bias_match")) {
        box.w = Width(anchor) / static_cast<double>(grid_.width);
        box.h = Height(anchor) / static_cast<double>(grid_.height);
      }
      box.x = box.y = 0;
      const double overlap = Iou(box, {0, 0, truth.w, truth.h});
      if (!(overlap > best_overlap)) continue;
      best = anchor;
      best_overlap = overlap;
    }
    return best;
  }

  // Adds the slope that an object gives the anchor it rules.
  void Rule(int64_t image, const YoloObject& object, std::vector<double>& slope) const {
    const double x = object.box.x * static_cast<double>(grid_.width);
    const double y = object.box.y * static_cast<double>(grid_.height);
    if (!(x >= 0 && x < static_cast<double>(grid_.width) && y >= 0 && y < static_cast<double>(grid_.height))) return;
    const auto column = static_cast<int64_t>(x);
    const auto row = static_cast<int64_t>(y);
    const int64_t anchor = BestAnchor(image, row, column, object.box);
    if (anchor < 0) return;
    const size_t at = grid_.At(image, anchor, row, column);
    RuleBox(at, anchor, {x - static_cast<double>(column), y - static_cast<double>(row), object.box.w, object.box.h},
            slope);
    const double p = values_[grid_.Channel(at, 4)];
    const double overlap = Iou(Predicted(at, anchor, row, column), object.box);
    const double goal = attributes_.Bool("rescore") ? overlap : 1;
    const double pull = is_intel_ ? 2 * std::pow(1 - p, 3) : goal - p;
    slope[grid_.Channel(at, 4)] = -attributes_.Float("object_scale") * pull * p * (1 - p);
    const Ints& map = attributes_.Get<Ints>("class_map");
    RuleClass(at, map.empty() ? object.label : map[static_cast<size_t>(object.label)], slope);
  }

  // truth: place in the cell, size in the image.
  void RuleBox(size_t at, int64_t anchor, const YoloBox& truth, std::vector<double>& slope) const {
    const double area = truth.w * truth.h;
    const double scale = attributes_.Float("coord_scale") * (is_intel_ || attributes_.Bool("rescore") ? 1 : 2 - area);
    const double goals[] = {truth.x, truth.y, std::log(truth.w * static_cast<double>(grid_.width) / Width(anchor)),
                            std::log(truth.h * static_cast<double>(grid_.height) / Height(anchor))};
    for (int64_t c = 0; c < 4; ++c) {
      const size_t i = grid_.Channel(at, c);
      double residual = goals[c] - values_[i];
      if (is_intel_) residual = std::clamp(residual, -1.0, 1.0);
      slope[i] = -scale * residual * (c < 2 ? values_[i] * (1 - values_[i]) : 1);
    }
  }

  const Attributes& attributes_;
  YoloGrid grid_;
  const Doubles& anchors_;
  ClassTree tree_;
  bool is_intel_;
  std::vector<double> values_;  // x with sigmoids of x, y and objectness and the classes' softmaxes
};

void RegionLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t images = in[0].type.shape[0];
  const Ints& map = attributes.Get<Ints>("class_map");
  const int64_t labels = map.empty() ? attributes.Int("classes") : static_cast<int64_t>(map.size());
  // If there is a tree, labels are counted from 0, and an object without a place names a class as the net has it.
  const bool has_tree = !attributes.Get<Ints>("parents").empty();
  const bool has_rows = attributes.String("form") == "rows";
  std::vector<double>& slope = out[1].values;
  std::ranges::fill(slope, 0.0);
  RegionLoss(attributes, in[0])
      .Slope(has_rows ? ObjectsOfRows(in[1].values, images, labels, has_tree ? 0 : 1,
                                      has_tree ? attributes.Int("classes") : 0)
                      : ObjectsOfLists(in[1].values, images, labels),
             slope);
  double loss = 0;
  for (const double value : slope) loss += value * value;
  out[0].values[0] = has_rows ? loss : loss / static_cast<double>(images);
  for (double& value : slope) value /= static_cast<double>(images);
}

std::vector<OpCase> RegionLossCases() {
  const Attributes common{{"classes", int64_t{3}}, {"anchors", Doubles{1, 1.5, 2.5, 1}}};
  const auto lists = [&](const char* name, bool rescore, bool bias_match) {
    return OpCase{
        .name = name,
        .inputs = {Float32({2, 16, 4, 4}), Float32({2, 10})},
        .attributes = With(common, {{"form", std::string("lists")}, {"rescore", rescore}, {"bias_match", bias_match}}),
        .ranges = {{1, 0.05, 0.9}}};
  };
  // Every row has corners drawn anew: most are empty boxes.
  return {lists("lists", true, true),
          lists("lists_without_rescore", false, false),
          {.name = "rows",
           .inputs = {Float32({1, 16, 3, 3}), Float32({1, 1, 4, 8})},
           .attributes = With(common, {{"form", std::string("rows")}}),
           .ranges = {{1, 0, 2}}},
          {.name = "tree",
           .inputs = {Float32({1, 16, 3, 3}), Float32({1, 1, 4, 8})},
           .attributes =
               With(common, {{"form", std::string("rows")}, {"parents", Ints{-1, 0, 0}}, {"class_map", Ints{2, 1}}}),
           .ranges = {{1, 0, 2}}}};
}

}  // namespace

OpDef RegionLossOp() {
  return {
      .name = "region_loss",
      .doc = "(x [N,A*(5+C),H,W], label) -> loss (scalar), slope like x: YOLO v2's loss and its hand-made gradient.",
      .attributes = {{"form", std::string("rows"),
                      "labels as \"rows\" of 8 (Intel) or \"lists\" of 5 values (darknet)"},
                     {"classes", {}, "number of classes"},
                     {"anchors", {}, "widths and heights of the anchors, in cells"},
                     {"object_scale", 1.0, "weight of the objectness of anchors with an object"},
                     {"noobject_scale", 0.5, "weight of the objectness of the others"},
                     {"class_scale", 1.0, "weight of the classes"},
                     {"coord_scale", 5.0, "weight of the boxes"},
                     {"thresh", 0.2, "overlap above which an anchor without object is left alone"},
                     {"bias_match", true, "objects are matched with anchors, else with predicted boxes"},
                     {"rescore", true, "objectness is to be the overlap (lists)"},
                     {"parents", Ints{}, "rows: the parent of each class in a tree, -1: none; nothing: no tree"},
                     {"class_map", Ints{}, "the class of each label; nothing: itself"}},
      .infer = InferRegionLoss,
      .reference = RegionLossReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kCells,
      .cases = RegionLossCases};
}

}  // namespace moka

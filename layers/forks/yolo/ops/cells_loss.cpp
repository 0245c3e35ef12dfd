// The losses of YOLO v2 and v3 as Synopsys's Caffe has them, whose labels say for each cell of the map whether an
// object has its centre there. Training follows `slope`, darknet's rule made by hand; the loss that is told is the
// weighted squares behind it, each kind over its number: of the objects learnt, or of the other anchors for the
// objectness of those. So there is no gradient here, and the layer gives slope to the bottom.
//
// Let p be the sigmoid of the objectness. Every anchor is drawn to 0, none if it overlaps an object by more than thresh
// (version 3: and to an object that it overlaps by more than truth_thresh). Each object then rules an anchor of its
// cell, the one whose size fits best: of the map's (version 2), or of all maps' if this one has it (version 3). As long
// as `seen` is below 12800, version 2 draws all boxes a little to their anchors'.
//
// Caffe divides by the number of objects, 0 too; here the divisors are at least 1.
#include "graph/op.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "layers/forks/yolo/ops/grid.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr double kSeen = 12800;
constexpr int64_t kPlanes = 7;  // of the labels: difficult, object, class, and the box's four numbers

YoloGrid CellsLossGrid(const Attributes& attributes, const Shape& x) {
  return GridOf("yolo_cells_loss", x, static_cast<int64_t>(attributes.Get<Ints>("mask").size()),
                5 + attributes.Int("classes"));
}

[[noreturn]] void RefuseCellsLoss(const std::string& text) {
  throw Error(ErrorKind::kConfig, StrCat("yolo_cells_loss: ", text));
}

std::vector<TensorType> InferCellsLoss(const Attributes& attributes, std::span<const TensorType> in) {
  const int64_t version = attributes.Int("version");
  if (version != 2 && version != 3) RefuseCellsLoss(StrCat("version must be 2 or 3, found ", version));
  CheckInputCount("yolo_cells_loss", in, version == 2 ? 3 : 2, version == 2 ? 3 : 2);
  CheckFloat("yolo_cells_loss", "x", in[0]);
  CheckFloat("yolo_cells_loss", "label", in[1]);
  const YoloGrid grid = CellsLossGrid(attributes, in[0].shape);
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size());
  if (attributes.Int("classes") < 1 || anchors < 2 || anchors % 2 != 0) {
    RefuseCellsLoss(
        StrCat("there must be a class and a width and a height of each anchor, found ", anchors, " numbers"));
  }
  for (const int64_t anchor : attributes.Get<Ints>("mask")) {
    if (anchor < 0 || anchor >= anchors / 2)
      RefuseCellsLoss(StrCat("mask ", anchor, " is none of ", anchors / 2, " anchors"));
  }
  if (grid.height != grid.width || in[1].shape.Count() != grid.images * grid.Cells() * kPlanes) {
    RefuseCellsLoss(StrCat("x must have square maps and label ", kPlanes, " numbers a cell, found ",
                           in[0].shape.ToString(), " and ", in[1].shape.ToString()));
  }
  if (version == 2 && in[2].shape.rank() != 0) RefuseCellsLoss("seen must be a scalar");
  return {PlainType(StatisticsType(in[0].dtype), Shape{}), PlainType(in[0].dtype, in[0].shape)};
}

class CellsLoss {
 public:
  CellsLoss(const Attributes& attributes, std::span<const RefTensor> in, std::vector<double>& slope)
      : a_(attributes),
        grid_(CellsLossGrid(attributes, in[0].type.shape)),
        anchors_(attributes.Get<Doubles>("anchors")),
        mask_(attributes.Get<Ints>("mask")),
        is_v3_(attributes.Int("version") == 3),
        is_early_(!is_v3_ && in[2].values[0] < kSeen),
        labels_(in[1].values),
        values_(in[0].values),
        slope_(slope) {
    grid_.Visit([&](int64_t image, int64_t place, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, place, row, column);
      const int64_t sigmoids = is_v3_ ? grid_.length : 5;
      for (int64_t c = 0; c < sigmoids; ++c) {
        double& value = values_[grid_.Channel(at, c)];
        if (c != 2 && c != 3) value = YoloSigmoid(value);
      }
      if (!is_v3_) SoftmaxInPlace(values_.data() + grid_.Channel(at, 5), a_.Int("classes"), grid_.Cells());
    });
  }

  // Fills slope, which is zeros before; gives the loss.
  double Run() {
    for (int64_t image = 0; image < grid_.images; ++image) {
      const std::vector<YoloBox> objects = ObjectsOf(image);
      for (int64_t place = 0; place < grid_.anchors; ++place) {
        for (int64_t cell = 0; cell < grid_.Cells(); ++cell) RuleAnchor(image, place, cell, objects);
      }
      for (const YoloBox& object : objects) RuleObject(image, object);
    }
    const auto all = static_cast<double>(grid_.images * grid_.anchors * grid_.Cells());
    return of_objects_ / std::max(ruled_, 1.0) + of_others_ / std::max(all - ruled_, 1.0);
  }

 private:
  double Label(int64_t image, int64_t plane, int64_t cell) const {
    return labels_[static_cast<size_t>((image * kPlanes + plane) * grid_.Cells() + cell)];
  }

  // Those whose centre is in the image.
  std::vector<YoloBox> ObjectsOf(int64_t image) const {
    std::vector<YoloBox> objects;
    for (int64_t cell = 0; cell < grid_.Cells(); ++cell) {
      if (Label(image, 1, cell) == 0) continue;
      const auto first = static_cast<size_t>((image * kPlanes + 3) * grid_.Cells() + 4 * cell);
      const YoloBox box{labels_[first], labels_[first + 1], labels_[first + 2], labels_[first + 3]};
      if (box.x >= 0 && box.x < 1 && box.y >= 0 && box.y < 1) objects.push_back(box);
    }
    return objects;
  }

  int64_t CellOf(const YoloBox& box) const {
    const auto row = static_cast<int64_t>(box.y * static_cast<double>(grid_.height));
    const auto column = static_cast<int64_t>(box.x * static_cast<double>(grid_.width));
    return row * grid_.width + column;
  }

  YoloBox SizeOf(int64_t anchor) const {
    return {0, 0, anchors_[static_cast<size_t>(2 * anchor)], anchors_[static_cast<size_t>(2 * anchor + 1)]};
  }

  size_t At(int64_t image, int64_t place, int64_t cell) const {
    return grid_.At(image, place, cell / grid_.width, cell % grid_.width);
  }

  double ColumnOf(int64_t cell) const { return static_cast<double>(cell % grid_.width); }
  double RowOf(int64_t cell) const {
    const int64_t row = cell / grid_.width;
    return static_cast<double>(row);
  }

  YoloBox Predicted(size_t at, int64_t place, int64_t cell) const {
    const YoloBox size = SizeOf(mask_[static_cast<size_t>(place)]);
    return {(ColumnOf(cell) + values_[at]) / static_cast<double>(grid_.width),
            (RowOf(cell) + values_[grid_.Channel(at, 1)]) / static_cast<double>(grid_.height),
            std::exp(values_[grid_.Channel(at, 2)]) * size.w, std::exp(values_[grid_.Channel(at, 3)]) * size.h};
  }

  // Sets the slope of an anchor by the objects of its image: every anchor of every cell has one.
  void RuleAnchor(int64_t image, int64_t place, int64_t cell, const std::vector<YoloBox>& objects) {
    const size_t at = At(image, place, cell);
    const YoloBox box = Predicted(at, place, cell);
    const YoloBox* nearest = nullptr;
    double best = 0;
    for (const YoloBox& object : objects) {
      const double overlap = Iou(box, object);
      if (!(overlap > best)) continue;
      best = overlap;
      nearest = &object;
    }
    const double p = values_[grid_.Channel(at, 4)];
    const double scale = is_v3_ ? 1 : a_.Float("noobject_scale");
    const bool is_free = best > a_.Float("thresh");
    if (is_v3_ || !is_free) of_others_ += scale * p * p;
    slope_[grid_.Channel(at, 4)] = is_free ? 0 : scale * p * p * (1 - p);
    if (is_v3_ && nearest != nullptr && best > a_.Float("truth_thresh")) {
      slope_[grid_.Channel(at, 4)] = -(1 - p) * p * (1 - p);
      RuleClasses(at, Label(image, 2, CellOf(*nearest)));
      RuleBox(at, place, cell, *nearest, 2 - nearest->w * nearest->h);
    }
    if (!is_early_) return;
    const YoloBox size = SizeOf(mask_[static_cast<size_t>(place)]);
    const auto side = static_cast<double>(grid_.width);
    RuleBox(at, place, cell, {(ColumnOf(cell) + 0.5) / side, (RowOf(cell) + 0.5) / side, size.w, size.h}, 0.01);
  }

  void RuleObject(int64_t image, const YoloBox& object) {
    const int64_t place = PlaceOf(BestAnchor(object));
    if (place < 0) return;
    const int64_t cell = CellOf(object);
    const size_t at = At(image, place, cell);
    const double scale = is_v3_ ? 1 : a_.Float("box_scale");
    RuleBox(at, place, cell, object, scale * (2 - object.w * object.h));
    const double p = values_[grid_.Channel(at, 4)];
    const double weight = is_v3_ ? 1 : a_.Float("object_scale");
    const double gap = (!is_v3_ && a_.Bool("rescore") ? Iou(Predicted(at, place, cell), object) : 1) - p;
    of_objects_ += weight * gap * gap;
    slope_[grid_.Channel(at, 4)] = -weight * gap * p * (1 - p);
    RuleClasses(at, Label(image, 2, cell));
    ++ruled_;
  }

  // The anchor that fits the object's size best; the first where none overlaps.
  int64_t BestAnchor(const YoloBox& object) const {
    int64_t best = 0;
    double most = 0;
    for (int64_t anchor = 0; anchor < static_cast<int64_t>(anchors_.size() / 2); ++anchor) {
      const double overlap = Iou(SizeOf(anchor), {0, 0, object.w, object.h});
      if (!(overlap > most)) continue;
      best = anchor;
      most = overlap;
    }
    return best;
  }

  // An anchor's place in this map; -1: it is another map's.
  int64_t PlaceOf(int64_t anchor) const {
    const auto found = std::ranges::find(mask_, anchor);
    return found == mask_.end() ? -1 : found - mask_.begin();
  }

  void RuleBox(size_t at, int64_t place, int64_t cell, const YoloBox& goal, double scale) {
    const YoloBox size = SizeOf(mask_[static_cast<size_t>(place)]);
    const double goals[] = {goal.x * static_cast<double>(grid_.width) - ColumnOf(cell),
                            goal.y * static_cast<double>(grid_.height) - RowOf(cell), std::log(goal.w / size.w),
                            std::log(goal.h / size.h)};
    for (int64_t c = 0; c < 4; ++c) {
      const size_t i = grid_.Channel(at, c);
      const double gap = goals[c] - values_[i];
      slope_[i] = -scale * gap * (c < 2 ? values_[i] * (1 - values_[i]) : 1);
      of_objects_ += scale * gap * gap;
    }
  }

  // In version 3 a second object of an anchor changes its own class alone.
  void RuleClasses(size_t at, double label) {
    const double scale = is_v3_ ? 1 : a_.Float("class_scale");
    const int64_t classes = a_.Int("classes");
    const auto own = static_cast<int64_t>(label >= 0 && label < static_cast<double>(classes) ? label : -1);
    if (is_v3_ && slope_[grid_.Channel(at, 5)] != 0) {
      const size_t i = grid_.Channel(at, 5 + own);
      if (own >= 0) slope_[i] = -(1 - values_[i]);
      return;
    }
    for (int64_t c = 0; c < classes; ++c) {
      const size_t i = grid_.Channel(at, 5 + c);
      slope_[i] = ClassSlope(scale, c == own, values_[i]);
      of_objects_ += scale * std::pow((c == own ? 1 : 0) - values_[i], 2);
    }
  }

  const Attributes& a_;
  YoloGrid grid_;
  const Doubles& anchors_;
  const Ints& mask_;
  bool is_v3_;
  bool is_early_;
  const std::vector<double>& labels_;
  std::vector<double> values_;  // x with sigmoids of x, y and objectness, and of the classes or their softmaxes
  std::vector<double>& slope_;
  double of_objects_ = 0;
  double of_others_ = 0;
  double ruled_ = 0;
};

void CellsLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[1].values, 0.0);
  out[0].values[0] = CellsLoss(attributes, in, out[1].values).Run();
  for (double& value : out[1].values) value /= static_cast<double>(in[0].type.shape[0]);
}

std::vector<OpCase> CellsLossCases() {
  const Attributes common{{"classes", int64_t{3}}, {"anchors", Doubles{0.1, 0.2, 0.5, 0.3, 0.4, 0.9}}, {"thresh", 0.4}};
  const auto second = [&](const char* name, double least, bool rescore) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 24, 3, 3}), Float32({2, 63}), Float32({})},
                  .attributes = With(common, {{"version", int64_t{2}}, {"mask", Ints{0, 1, 2}}, {"rescore", rescore}}),
                  .ranges = {{1, 0.05, 0.9}, {2, least, least + 1}}};
  };
  const auto third = [&](const char* name, double truth) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 16, 3, 3}), Float32({2, 63})},
                  .attributes = With(common, {{"version", int64_t{3}}, {"mask", Ints{1, 2}}, {"truth_thresh", truth}}),
                  .ranges = {{1, 0.05, 0.9}}};
  };
  return {second("version_2_early", 0, true), second("version_2", 20000, false), third("version_3", 1),
          third("version_3_truth", 0.2)};
}

}  // namespace

OpDef YoloCellsLossOp() {
  return {
      .name = "yolo_cells_loss",
      .doc =
          "(x [N,A*(5+C),S,S], label [N,7*S*S], version 2: seen (scalar)) -> loss (scalar), slope like x: YOLO's loss "
          "of labels by cells and its hand-made gradient.",
      .attributes = {{"version", {}, "YOLO's, 2 or 3"},
                     {"classes", {}, "number of classes"},
                     {"anchors", {}, "widths and heights of the anchors, of all maps, as parts of the image's sides"},
                     {"mask", {}, "which of them this map has"},
                     {"thresh", {}, "overlap above which an anchor without object is left alone"},
                     {"truth_thresh", 1.0, "version 3: overlap above which an anchor has the object"},
                     {"box_scale", 1.0, "version 2: weight of the boxes"},
                     {"class_scale", 1.0, "version 2: weight of the classes"},
                     {"object_scale", 1.0, "version 2: weight of the objectness of anchors with an object"},
                     {"noobject_scale", 1.0, "version 2: weight of the objectness of the others"},
                     {"rescore", true, "version 2: objectness is to be the overlap"}},
      .infer = InferCellsLoss,
      .reference = CellsLossReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kCells,
      .cases = CellsLossCases};
}

}  // namespace moka

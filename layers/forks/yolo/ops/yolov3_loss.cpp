// YOLO v3's loss (Redmon & Farhadi, arXiv 1804.02767) as eric612's Caffe port has it, on one map of several. As in
// region_loss training follows `slope`, of which the loss told is the sum of squares (with an overlap loss, those of
// objectness and classes and the mean of 1 - overlap); so there is no gradient and the layer gives slope to the bottom.
//
// Let p be the sigmoid of the objectness. An anchor whose box overlaps no object by more than thresh gets p. Each
// object rules in its cell the anchor of all maps that fits its size best, if this map has it, and every further one of
// this map that fits better than iou_thresh: box (mean squares, or the slope of an overlap, bounded by max_delta),
// objectness towards 1, classes towards the smoothed label. As in the port the best anchor takes part in the further
// ones too unless its number among all anchors equals its place in this map.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/yolo/ops/box_slope.h"
#include "layers/forks/yolo/ops/grid.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

YoloGrid Yolov3LossGrid(const Attributes& attributes, const Shape& x) {
  return GridOf("yolov3_loss", x, static_cast<int64_t>(attributes.Get<Ints>("mask").size()),
                5 + attributes.Int("classes"));
}

std::vector<TensorType> InferYolov3Loss(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("yolov3_loss", in, 2, 2);
  CheckFloat("yolov3_loss", "x", in[0]);
  CheckFloat("yolov3_loss", "label", in[1]);
  const YoloGrid grid = Yolov3LossGrid(attributes, in[0].shape);
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size() / 2);
  for (const int64_t anchor : attributes.Get<Ints>("mask")) {
    if (anchor >= 0 && anchor < anchors) continue;
    throw Error(ErrorKind::kConfig, StrCat("yolov3_loss: mask ", anchor, " is none of the ", anchors, " anchors"));
  }
  if (in[1].shape.Count() % (5 * grid.images) != 0 || attributes.Int("classes") < 1) {
    throw Error(ErrorKind::kConfig, StrCat("yolov3_loss: labels are lists of 5 values for each of ", grid.images,
                                           " images, found ", in[1].shape.ToString()));
  }
  return {PlainType(StatisticsType(in[0].dtype), Shape{}), PlainType(in[0].dtype, in[0].shape)};
}

class Yolov3Loss {
 public:
  Yolov3Loss(const Attributes& attributes, const RefTensor& x, std::vector<double>& slope)
      : attributes_(attributes),
        grid_(Yolov3LossGrid(attributes, x.type.shape)),
        anchors_(attributes.Get<Doubles>("anchors")),
        mask_(attributes.Get<Ints>("mask")),
        kind_(attributes.String("overlap")),
        values_(x.values),
        slope_(slope) {
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      for (int64_t c = 0; c < grid_.length; ++c) {
        if (c == 2 || c == 3) continue;
        values_[grid_.Channel(at, c)] = YoloSigmoid(values_[grid_.Channel(at, c)]);
      }
    });
  }

  // Fills slope; gives the loss.
  double Run(const std::vector<std::vector<YoloObject>>& objects) {
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      const YoloBox box = Predicted(at, mask_[static_cast<size_t>(anchor)], row, column);
      double best = 0;
      for (const YoloObject& object : objects[static_cast<size_t>(image)]) {
        const double overlap = OverlapOf(box, object.box, kind_);
        if (overlap > best) best = overlap;
      }
      const size_t i = grid_.Channel(at, 4);
      slope_[i] = best > attributes_.Float("thresh") ? 0 : values_[i];
    });
    for (int64_t image = 0; image < grid_.images; ++image) {
      for (const YoloObject& object : objects[static_cast<size_t>(image)]) Rule(image, object);
    }
    return Loss();
  }

  // Multiplies the slope by p (1 - p), as the fork's use_logic_gradient does on the way back.
  void MultiplySigmoids() {
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      for (int64_t c = 0; c < grid_.length; ++c) {
        const double p = values_[grid_.Channel(at, c)];
        if (c != 2 && c != 3) slope_[grid_.Channel(at, c)] *= p * (1 - p);
      }
    });
  }

 private:
  // Sides of the image in pixels.
  double ImageWidth() const { return static_cast<double>(grid_.width * attributes_.Int("cell")); }
  double ImageHeight() const { return static_cast<double>(grid_.height * attributes_.Int("cell")); }
  // The size of an anchor as part of the image.
  YoloBox AnchorBox(int64_t anchor) const {
    return {0, 0, anchors_[static_cast<size_t>(2 * anchor)] / ImageWidth(),
            anchors_[static_cast<size_t>(2 * anchor + 1)] / ImageHeight()};
  }

  YoloBox Predicted(size_t at, int64_t anchor, int64_t row, int64_t column) const {
    const auto value = [&](int64_t channel) { return values_[grid_.Channel(at, channel)]; };
    const YoloBox size = AnchorBox(anchor);
    return {(static_cast<double>(column) + value(0)) / static_cast<double>(grid_.width),
            (static_cast<double>(row) + value(1)) / static_cast<double>(grid_.height), std::exp(value(2)) * size.w,
            std::exp(value(3)) * size.h};
  }

  void Rule(int64_t image, const YoloObject& object) {
    const double x = object.box.x * static_cast<double>(grid_.width);
    const double y = object.box.y * static_cast<double>(grid_.height);
    if (!(x >= 0 && x < static_cast<double>(grid_.width) && y >= 0 && y < static_cast<double>(grid_.height))) return;
    const auto column = static_cast<int64_t>(x);
    const auto row = static_cast<int64_t>(y);
    const YoloBox size{0, 0, object.box.w, object.box.h};
    const auto count = static_cast<int64_t>(anchors_.size() / 2);
    int64_t best = -1;
    double best_overlap = 0;
    for (int64_t n = 0; n < count; ++n) {
      const double overlap = OverlapOf(AnchorBox(n), size, kind_);
      if (!(overlap > best_overlap)) continue;
      best = n;
      best_overlap = overlap;
    }
    int64_t skipped = best;
    if (PlaceOf(best) >= 0) {
      skipped = PlaceOf(best);
      RuleAnchor(image, skipped, row, column, object);
    }
    if (attributes_.Float("iou_thresh") >= 1) return;
    for (int64_t n = 0; n < count; ++n) {
      if (PlaceOf(n) < 0 || n == skipped) continue;
      if (OverlapOf(AnchorBox(n), size, kind_) > attributes_.Float("iou_thresh")) {
        RuleAnchor(image, PlaceOf(n), row, column, object);
      }
    }
  }
  // An anchor's place in this map; -1: it is another map's.
  int64_t PlaceOf(int64_t anchor) const {
    const auto found = std::ranges::find(mask_, anchor);
    return found == mask_.end() ? -1 : found - mask_.begin();
  }

  void RuleAnchor(int64_t image, int64_t place, int64_t row, int64_t column, const YoloObject& object) {
    const size_t at = grid_.At(image, place, row, column);
    const int64_t anchor = mask_[static_cast<size_t>(place)];
    const YoloBox box = Predicted(at, anchor, row, column);
    if (kind_ == "mse") {
      RuleBox(at, anchor, row, column, object.box);
    } else {
      RuleOverlap(at, box, object.box);
    }
    overlap_losses_ += 1 - (kind_ == "iou" ? Diou(box, object.box) : OverlapOf(box, object.box, kind_));
    ++ruled_;
    const size_t i = grid_.Channel(at, 4);
    slope_[i] = -(1 - values_[i]) * (attributes_.Bool("logic_gradient") ? attributes_.Float("object_scale") : 1);
    RuleClasses(grid_.Channel(at, 5), object.label);
  }

  void RuleBox(size_t at, int64_t anchor, int64_t row, int64_t column, const YoloBox& truth) {
    const double scale = attributes_.Float("coord_scale") * (2 - truth.w * truth.h);
    const YoloBox size = AnchorBox(anchor);
    const double goals[] = {truth.x * static_cast<double>(grid_.width) - static_cast<double>(column),
                            truth.y * static_cast<double>(grid_.height) - static_cast<double>(row),
                            std::log(truth.w / size.w), std::log(truth.h / size.h)};
    for (int64_t c = 0; c < 4; ++c) {
      const size_t i = grid_.Channel(at, c);
      slope_[i] = -scale * (goals[c] - values_[i]);
    }
  }

  void RuleOverlap(size_t at, YoloBox box, const YoloBox& truth) {
    const YoloBox d = OverlapSlope(box, truth, kind_);
    const double steps[] = {d.x, d.y, d.w * std::exp(values_[grid_.Channel(at, 2)]),
                            d.h * std::exp(values_[grid_.Channel(at, 3)])};
    const double bound = attributes_.Float("max_delta");
    for (int64_t c = 0; c < 4; ++c) {
      double step = steps[c] * attributes_.Float("overlap_scale");
      step = std::isfinite(step) ? std::clamp(step, -bound, bound) : 0;
      double& slope = slope_[grid_.Channel(at, c)];
      slope = (attributes_.Bool("accumulate") ? slope : 0) - step;
    }
  }

  // A second object of the same anchor adds its class to those of the first.
  void RuleClasses(size_t first, int64_t label) {
    const double scale = attributes_.Float("class_scale");
    const double smoothing = attributes_.Float("smoothing");
    const auto goal = [&](bool is_label) { return (is_label ? 1 - smoothing : 0) + smoothing / 2; };
    const size_t own = grid_.Channel(first, label);
    if (slope_[own] != 0) {
      slope_[own] = -scale * (goal(true) - values_[own]);
      return;
    }
    const double p = values_[own] + 1e-15;
    const double focus = attributes_.Bool("focal") ? -0.5 * (1 - p) * (2 * p * std::log(p) + p - 1) : 1;
    for (int64_t c = 0; c < attributes_.Int("classes"); ++c) {
      const size_t i = grid_.Channel(first, c);
      const double target = attributes_.Bool("focal") ? (c == label ? 1 : 0) : goal(c == label);
      slope_[i] = -scale * (target - values_[i]) * focus;
    }
  }

  double Loss() const {
    double loss = 0;
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      for (int64_t c = kind_ == "mse" ? 0 : 4; c < grid_.length; ++c) {
        loss += slope_[grid_.Channel(at, c)] * slope_[grid_.Channel(at, c)];
      }
    });
    if (kind_ != "mse" && ruled_ > 0) {
      loss += attributes_.Float("overlap_scale") * overlap_losses_ / static_cast<double>(ruled_);
    }
    return loss / static_cast<double>(grid_.images);
  }

  const Attributes& attributes_;
  YoloGrid grid_;
  const Doubles& anchors_;
  const Ints& mask_;
  const std::string& kind_;
  std::vector<double> values_;  // x with the sigmoid of all but w and h
  std::vector<double>& slope_;
  double overlap_losses_ = 0;
  int64_t ruled_ = 0;
};

void Yolov3LossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t images = in[0].type.shape[0];
  std::ranges::fill(out[1].values, 0.0);
  Yolov3Loss loss(attributes, in[0], out[1].values);
  out[0].values[0] = loss.Run(ObjectsOfLists(in[1].values, images, attributes.Int("classes")));
  if (attributes.Bool("logic_gradient")) loss.MultiplySigmoids();
  for (double& value : out[1].values) value /= static_cast<double>(images);
}

std::vector<OpCase> Yolov3LossCases() {
  const auto make = [](const char* name, const char* overlap, const Attributes& more) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 16, 4, 4}), Float32({2, 10})},
                  .attributes = With({{"classes", int64_t{3}},
                                      {"anchors", Doubles{10, 14, 30, 20, 50, 60, 90, 80}},
                                      {"mask", Ints{1, 3}},
                                      {"overlap", std::string(overlap)}},
                                     more),
                  .ranges = {{1, 0.05, 0.9}}};
  };
  return {make("mean_squares", "mse", {}), make("focal", "mse", {{"focal", true}, {"logic_gradient", true}}),
          make("giou", "giou", {}), make("ciou", "ciou", {{"accumulate", false}})};
}

}  // namespace

OpDef Yolov3LossOp() {
  return {
      .name = "yolov3_loss",
      .doc = "(x [N,A*(5+C),H,W], label) -> loss (scalar), slope like x: YOLO v3's loss and its hand-made gradient.",
      .attributes = {{"classes", {}, "number of classes"},
                     {"anchors", {}, "widths and heights of the anchors of all maps, in pixels"},
                     {"mask", {}, "which of them this map has"},
                     {"cell", int64_t{32}, "pixels of a cell's side"},
                     {"overlap", std::string("mse"), "loss of boxes: mse, iou, giou, diou or ciou"},
                     {"object_scale", 1.0, "weight of the objectness of anchors with an object (logic_gradient)"},
                     {"class_scale", 1.0, "weight of the classes"},
                     {"coord_scale", 5.0, "weight of the boxes (mse)"},
                     {"thresh", 0.2, "overlap above which an anchor without object is left alone"},
                     {"iou_thresh", 0.5, "overlap above which further anchors take an object; 1: none"},
                     {"overlap_scale", 0.25, "weight of an overlap loss"},
                     {"max_delta", 10.0, "bound of an overlap's slope"},
                     {"accumulate", true, "slopes of several objects add up (overlaps)"},
                     {"smoothing", 0.1, "label smoothing of the classes"},
                     {"focal", false, "focal loss for the classes"},
                     {"logic_gradient", false, "the slope is multiplied by the sigmoids' derivatives"}},
      .infer = InferYolov3Loss,
      .reference = Yolov3LossReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kCells,
      .cases = Yolov3LossCases};
}

}  // namespace moka

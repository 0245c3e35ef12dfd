// Gathers the rows of each image and class and hands them to CocoPrecision; overlaps of boxes are computed here,
// those of masks by their own op.
#include "optim/evaluators/coco.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "optim/evaluators/coco_precision.h"

namespace moka {
namespace {

// Image, class, score or instance, four corners, -1 of a detection or difficult 1, crowd 2.
constexpr size_t kColumns = 8;

struct CocoRowBox {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
  double Area() const { return std::max(0.0, xmax - xmin) * std::max(0.0, ymax - ymin); }
};

// Returns the overlap of a detection and an object; for a crowd it is the part of the detection that is in it.
double CocoRowOverlap(const CocoRowBox& a, const CocoRowBox& b, bool is_crowd) {
  const CocoRowBox common{std::max(a.xmin, b.xmin), std::max(a.ymin, b.ymin), std::min(a.xmax, b.xmax),
                          std::min(a.ymax, b.ymax)};
  const double both = common.Area();
  const double either = is_crowd ? a.Area() : a.Area() + b.Area() - both;
  return either > 0 ? both / either : 0;
}

// The detections and objects of one image and class.
struct CocoRowGroup {
  std::vector<CocoDetection> detections;
  std::vector<CocoRowBox> detected;
  std::vector<CocoObject> objects;
  std::vector<CocoRowBox> objects_boxes;

  std::vector<double> Overlaps() const {
    std::vector<double> overlaps;
    for (const CocoRowBox& d : detected) {
      for (size_t o = 0; o < objects.size(); ++o) {
        overlaps.push_back(CocoRowOverlap(d, objects_boxes[o], objects[o].is_crowd));
      }
    }
    return overlaps;
  }
};

class CocoBoxEvaluator final : public Evaluator {
 public:
  explicit CocoBoxEvaluator(const CocoEvaluateParameter& param)
      : precision_({.has_sizes = param.height() > 0, .max_detections = param.max_detections()}),
        height_(param.height() > 0 ? param.height() : 1),
        width_(param.width() > 0 ? param.width() : 1),
        has_sizes_(param.height() > 0) {}

  void Reset() override { precision_.Clear(); }

  void Add(std::span<const float> values) override {
    Require(values.size() % kColumns == 0, "rows of CocoEvaluate have eight numbers");
    std::map<std::pair<int64_t, int64_t>, CocoRowGroup> groups;
    for (; !values.empty(); values = values.subspan(kColumns)) {
      if (!(values[0] >= 0 && values[1] >= 0)) continue;  // unused
      CocoRowGroup& group = groups[{static_cast<int64_t>(values[0]), static_cast<int64_t>(values[1])}];
      const CocoRowBox box = BoxOfRow(values);
      if (values[7] < 0) {
        group.detections.push_back({values[2], box.Area()});
        group.detected.push_back(box);
      } else {
        group.objects.push_back({.area = box.Area(), .is_ignored = values[7] > 0, .is_crowd = values[7] > 1});
        group.objects_boxes.push_back(box);
      }
    }
    for (const auto& [of, group] : groups) precision_.Add(of.second, group.detections, group.objects, group.Overlaps());
  }

  std::vector<OutputValue> Values(const std::string& top) const override {
    return CocoValues(top, precision_, has_sizes_);
  }

 private:
  CocoRowBox BoxOfRow(std::span<const float> row) const {
    return {double{row[3]} * width_, double{row[4]} * height_, double{row[5]} * width_, double{row[6]} * height_};
  }

  CocoPrecision precision_;
  double height_;
  double width_;
  bool has_sizes_;
};

}  // namespace

std::vector<OutputValue> CocoValues(const std::string& top, const CocoPrecision& precision, bool has_sizes) {
  constexpr size_t k75 = 5;
  // -1, COCO's word for "no such objects", keeps the list of values the same in each test.
  const auto value = [](const std::string& name, std::optional<double> found) {
    OutputValue output;
    output.name = name;
    output.value = found.value_or(-1);
    return output;
  };
  std::vector<OutputValue> values = {value(top, precision.Mean()), value(StrCat(top, "/ap50"), precision.MeanAt(0)),
                                     value(StrCat(top, "/ap75"), precision.MeanAt(k75))};
  values[0].classes = precision.MeanOfEach();
  if (has_sizes) {
    values.push_back(value(StrCat(top, "/small"), precision.Mean(CocoSize::kSmall)));
    values.push_back(value(StrCat(top, "/medium"), precision.Mean(CocoSize::kMedium)));
    values.push_back(value(StrCat(top, "/large"), precision.Mean(CocoSize::kLarge)));
  }
  return values;
}

EvaluatorRow CocoEvaluatorRow() {
  return {"CocoEvaluate",
          [](const LayerParameter& layer, const EvaluatorOptions& /*options*/) -> std::unique_ptr<Evaluator> {
            return std::make_unique<CocoBoxEvaluator>(layer.coco_evaluate_param());
          }};
}

}  // namespace moka

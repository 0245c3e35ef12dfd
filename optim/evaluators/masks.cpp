// Reads MaskOverlaps' tables back into detections, objects and their overlaps, an image each.
#include "optim/evaluators/evaluator.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"
#include "optim/evaluators/coco.h"
#include "optim/evaluators/coco_precision.h"

namespace moka {
namespace {

constexpr size_t kTableBefore = 3;  // class, score and pixels, before the overlaps with the objects

// The rows of one image and class.
struct MaskTableGroup {
  std::vector<CocoDetection> detections;
  std::vector<size_t> rows;  // theirs in the table
  std::vector<CocoObject> objects;
  std::vector<size_t> columns;  // theirs, among the overlaps
};

class MaskEvaluator final : public Evaluator {
 public:
  explicit MaskEvaluator(const MaskParameter& param)
      : precision_({.has_sizes = true, .max_detections = param.max_detections()}) {}

  void Reset() override { precision_.Clear(); }

  void Add(std::span<const float> values) override {
    while (!values.empty()) {
      const auto detections = static_cast<size_t>(values[0]);
      const size_t columns = kTableBefore + static_cast<size_t>(values[1]);
      const size_t count = (detections + 4) * columns;
      Require(values.size() >= count, "tables of MaskEvaluate begin with their size");
      AddPicture(values.first(count), detections, columns);
      values = values.subspan(count);
    }
  }

  std::vector<OutputValue> Values(const std::string& top) const override { return CocoValues(top, precision_, true); }

 private:
  // Ratios of pixels as the table's float32 has them: 13/20 must still reach an overlap of 0.65.
  static constexpr double kUnrounded = 1 + 0x1p-23;

  void AddPicture(std::span<const float> table, size_t detections, size_t columns) {
    std::map<int64_t, MaskTableGroup> groups;  // by class
    for (size_t row = 1; row <= detections; ++row) {
      const float* of = table.data() + row * columns;
      if (!(of[0] >= 0)) continue;
      MaskTableGroup& group = groups[static_cast<int64_t>(of[0])];
      group.detections.push_back({of[1], double{of[2]}});
      group.rows.push_back(row);
    }
    const float* labels = table.data() + (detections + 1) * columns;
    const float* areas = labels + columns;
    const float* marks = areas + columns;  // 1 difficult, 2 crowd
    for (size_t g = kTableBefore; g < columns; ++g) {
      // An object that others hide altogether cannot be found.
      if (!(labels[g] >= 0) || areas[g] <= 0) continue;
      MaskTableGroup& group = groups[static_cast<int64_t>(labels[g])];
      group.objects.push_back({.area = areas[g], .is_ignored = marks[g] > 0, .is_crowd = marks[g] > 1});
      group.columns.push_back(g);
    }
    for (const auto& [label, group] : groups) {
      std::vector<double> overlaps;
      for (const size_t row : group.rows) {
        for (const size_t column : group.columns) overlaps.push_back(kUnrounded * table[row * columns + column]);
      }
      precision_.Add(label, group.detections, group.objects, overlaps);
    }
  }

  CocoPrecision precision_;
};

}  // namespace

EvaluatorRow MaskEvaluatorRow() {
  return {"MaskEvaluate",
          [](const LayerParameter& layer, const EvaluatorOptions& /*options*/) -> std::unique_ptr<Evaluator> {
            return std::make_unique<MaskEvaluator>(layer.mask_param());
          }};
}

}  // namespace moka

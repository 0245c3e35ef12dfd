// Tells which detections are right: SSD's DetectionEvaluate. Keeps its memory from batch to batch. One thread.
#pragma once

#include <vector>

#include "layers/forks/ssd/ops/boxes.h"

namespace moka {

struct EvaluationSettings {
  int64_t classes = 1;
  int64_t background = 0;  // -1: none
  double overlap_threshold = 0.5;
  bool evaluate_difficult = true;

  // Rows that count the objects of a class.
  int64_t ClassRows() const { return background >= 0 && background < classes ? classes - 1 : classes; }
  // Errors: kConfig when there is no class.
  static EvaluationSettings Of(const Attributes& attributes);
};

class DetectionJudge {
 public:
  explicit DetectionJudge(const EvaluationSettings& settings) : s_(settings) {}

  // detections [rows,7], truth [truth_rows,8] -> out [ClassRows() + rows, 5]: (-1, class, objects, -1, -1) of each
  // class, then (image, label, score, right, wrong) of each detection; rows left over are -1.
  void Evaluate(const Reals& detections, int64_t rows, const Reals& truth, int64_t truth_rows, const RealsOut& out);

 private:
  struct Found {
    int64_t image;
    int64_t label;
    double score;
    Box box;
    int64_t row;  // keeps the order of equals
  };
  struct Object {
    TruthRow truth;
    bool taken = false;
  };

  void ReadDetections(const Reals& detections, int64_t rows);
  void ReadObjects(const Reals& truth, int64_t rows);
  int64_t WriteClasses(const RealsOut& out) const;
  // Objects of the detection's image and class.
  std::span<Object> ObjectsOf(const Found& found);
  // 1: right, 0: wrong, -1: neither.
  int Judge(const Found& found, std::span<Object> objects) const;

  EvaluationSettings s_;
  std::vector<Found> found_;
  std::vector<Object> objects_;  // by image, then label
};

}  // namespace moka

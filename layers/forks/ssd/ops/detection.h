// The detections of one image: predicted boxes decoded, suppressed class by class, the best of all classes kept. Keeps
// its memory from image to image. One thread.
#pragma once

#include <span>
#include <vector>

#include "layers/forks/ssd/ops/boxes.h"

namespace moka {

struct DetectionSettings {
  int64_t classes = 1;
  bool share_location = true;
  int64_t background = 0;  // -1: none
  BoxCoding coding;
  double confidence_threshold = 0;
  double nms_threshold = 0.3;
  double eta = 1;
  int64_t top_k = -1;       // boxes of a class that suppression looks at; -1: all
  int64_t keep_top_k = -1;  // boxes of an image; -1: all
  double objectness = 0.01;
  bool polygon = false;  // TextBoxes++: the corners of a polygon follow each box

  int64_t location_classes() const { return share_location ? 1 : classes; }
  int64_t location_numbers() const { return polygon ? 12 : 4; }
  int64_t row_width() const { return polygon ? 15 : 7; }
  // The most rows an image can have.
  int64_t RowsAnImage(int64_t priors) const;
  // Errors: kConfig for settings that contradict each other.
  static DetectionSettings Of(const Attributes& attributes);
};
std::vector<AttributeSpec> DetectionAttributes();

struct Detection {
  int64_t label = 0;
  double score = 0;
  Box box;
  Polygon polygon{};
};

// The numbers of one image. P priors, L location classes, C classes.
struct DetectionImage {
  Reals loc;       // [P,L,4], or [P,L,12] with polygons
  Reals conf;      // [P,C]
  Reals arm_conf;  // [P,2] of RefineDet's first stage, or empty
  Reals arm_loc;   // [P,4] of the same, or empty
};

class Detector {
 public:
  explicit Detector(const DetectionSettings& settings) : s_(settings) {}

  // Replaces `found`: classes in order, within a class the highest score first.
  void Detect(const DetectionImage& image, std::span<const Box> priors, std::span<const BoxCode> variances,
              std::vector<Detection>& found);

 private:
  void DecodeClass(const DetectionImage& image, std::span<const Box> priors, std::span<const BoxCode> variances,
                   int64_t c);
  void ReadScores(const DetectionImage& image, int64_t c);
  void KeepBest(int64_t limit, std::vector<Detection>& found);

  DetectionSettings s_;
  std::vector<Box> boxes_;  // of one location class
  std::vector<double> scores_;
  std::vector<int64_t> order_;
  std::vector<int64_t> kept_;
  std::vector<Detection> sorted_;
};

// Writes image after image into rows [image, label, score, xmin, ymin, xmax, ymax], of width 15 with the polygon; what
// is left is -1. When nothing was found at all, the first rows name the images, as Caffe's do.
void WriteDetections(std::span<const std::vector<Detection>> images, int64_t rows, int64_t width, const RealsOut& out);

}  // namespace moka

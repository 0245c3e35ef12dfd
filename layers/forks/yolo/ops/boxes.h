// Boxes of YOLO's layers: centre and size as parts of the image's sides. Overlaps: intersection over union and its
// kin, as darknet and its Caffe ports compute them (GIoU: arXiv 1902.09630; DIoU and CIoU: arXiv 1911.08287, darknet's
// DIoU with the exponent 0.6).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace moka {

struct YoloBox {
  double x = 0;  // centre
  double y = 0;
  double w = 0;
  double h = 0;

  double left() const { return x - w / 2; }
  double right() const { return x + w / 2; }
  double top() const { return y - h / 2; }
  double bottom() const { return y + h / 2; }
};

struct YoloObject {
  YoloBox box;
  int64_t label = 0;
};

// False where the centre is beyond 100000: an object that has a class and no box.
inline bool HasPlace(const YoloBox& box) { return !(box.x > 100000 && box.y > 100000); }

inline double YoloSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline double Intersection(const YoloBox& a, const YoloBox& b) {
  const double w = std::min(a.right(), b.right()) - std::max(a.left(), b.left());
  const double h = std::min(a.bottom(), b.bottom()) - std::max(a.top(), b.top());
  return w < 0 || h < 0 ? 0 : w * h;
}

inline double Union(const YoloBox& a, const YoloBox& b) { return a.w * a.h + b.w * b.h - Intersection(a, b); }

// NaN for two boxes without area, which no comparison takes.
inline double Iou(const YoloBox& a, const YoloBox& b) { return Intersection(a, b) / Union(a, b); }

// Width and height of the smallest box around both.
inline double HullWidth(const YoloBox& a, const YoloBox& b) {
  return std::max(a.right(), b.right()) - std::min(a.left(), b.left());
}
inline double HullHeight(const YoloBox& a, const YoloBox& b) {
  return std::max(a.bottom(), b.bottom()) - std::min(a.top(), b.top());
}

inline double Giou(const YoloBox& a, const YoloBox& b) {
  const double hull = HullWidth(a, b) * HullHeight(a, b);
  return hull == 0 ? Iou(a, b) : Iou(a, b) - (hull - Union(a, b)) / hull;
}

// The squared distance of the centres over the hull's squared diagonal.
inline double CenterDistance(const YoloBox& a, const YoloBox& b) {
  const double w = HullWidth(a, b);
  const double h = HullHeight(a, b);
  const double distance = (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
  return w * w + h * h == 0 ? 0 : distance / (w * w + h * h);
}

inline double Diou(const YoloBox& a, const YoloBox& b) { return Iou(a, b) - std::pow(CenterDistance(a, b), 0.6); }

// The difference of the aspect ratios of a and b, as an angle.
inline double AspectAngle(const YoloBox& a, const YoloBox& b) { return std::atan(b.w / b.h) - std::atan(a.w / a.h); }

inline double Ciou(const YoloBox& a, const YoloBox& b) {
  const double iou = Iou(a, b);
  const double angle = AspectAngle(a, b);
  const double aspect = 4 / (std::numbers::pi * std::numbers::pi) * angle * angle;
  const double alpha = aspect / (1 - iou + aspect + 0.000001);
  return iou - (CenterDistance(a, b) + alpha * aspect);
}

// The objects of each image from Intel's rows (image, label, instance, left, top, right, bottom, difficult), labels
// counted from first_label, image -1 for padding; rows that name no image or class are left out. Objects without a
// place (HasPlace) are of `placeless` classes.
std::vector<std::vector<YoloObject>> ObjectsOfRows(const std::vector<double>& rows, int64_t images, int64_t classes,
                                                   int64_t first_label = 1, int64_t placeless = 0);

// The objects of each image from darknet's lists of (label, x, y, w, h), as many places for each; a list ends where its
// x or w is 0.
std::vector<std::vector<YoloObject>> ObjectsOfLists(const std::vector<double>& lists, int64_t images, int64_t classes);

}  // namespace moka

// The anchors of py-faster-rcnn's generate_anchors.py, with its rounding, in the order that trained nets expect.
#include "layers/forks/rcnn/layers/anchors.h"

#include <cmath>

namespace moka {

Doubles GenerateAnchors(double base, const Doubles& ratios, const Doubles& scales) {
  const double center = (base - 1) / 2;
  Doubles anchors;
  for (const double ratio : ratios) {
    const double width = std::nearbyint(std::sqrt(base * base / ratio));
    const double height = std::nearbyint(width * ratio);
    for (const double scale : scales) {
      const double x = (width * scale - 1) / 2;
      const double y = (height * scale - 1) / 2;
      for (const double end : {center - x, center - y, center + x, center + y}) anchors.push_back(end);
    }
  }
  return anchors;
}

}  // namespace moka

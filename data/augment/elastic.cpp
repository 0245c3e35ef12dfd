// Two values come from one word of random bits, which is fine enough for noise that is blurred afterwards; OpenCV's
// Gaussian does the rest.
#include "data/augment/elastic.h"

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "core/size.h"

namespace moka {

void DrawElastic(const ElasticChange& elastic, int64_t width, int64_t height, RandomStream& random,
                 Displacement& field) {
  UseOneOpenCvThread();
  field.width = width;
  field.height = height;
  for (std::vector<float>* values : {&field.dx, &field.dy}) {
    values->resize(static_cast<size_t>((Size(width) * height).value()));
    // 16 bits each are fine enough for what is blurred.
    const float step = 2 * elastic.alpha() / 65535;
    for (size_t i = 0; i < values->size(); i += 2) {
      const uint32_t bits = random.Bits();
      (*values)[i] = static_cast<float>(bits & 0xFFFFU) * step - elastic.alpha();
      if (i + 1 < values->size()) (*values)[i + 1] = static_cast<float>(bits >> 16U) * step - elastic.alpha();
    }
    cv::Mat plane(static_cast<int>(height), static_cast<int>(width), CV_32FC1, values->data());
    const auto sigma = static_cast<double>(elastic.sigma());
    cv::GaussianBlur(plane, plane, {0, 0}, sigma, sigma, cv::BORDER_REFLECT_101);
  }
}

}  // namespace moka

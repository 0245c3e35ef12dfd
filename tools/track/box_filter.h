// Where a box is and where it goes: a Kalman filter of constant speed over its centre, aspect ratio and height. R. E.
// Kalman, A New Approach to Linear Filtering and Prediction Problems, 1960; the state and its noise, in parts of the
// height, are those of N. Wojke et al., Simple Online and Realtime Tracking with a Deep Association Metric, arXiv
// 1703.07402.
#pragma once

#include <array>

#include "data/labels/annotation_file.h"

namespace moka {

// The filter's matrices join each value with its own speed alone, so its 8x8 covariance is four of 2x2, and it is four
// filters of two states x = (value, speed):
//   predict: x = F x, P = F P F' + Q with F = [1 1; 0 1], Q = diag(q_value^2, q_speed^2)
//   update by a measured z: K = P H' / (H P H' + r^2) with H = [1 0], x += K (z - H x), P -= K H P
class BoxFilter {
 public:
  explicit BoxFilter(const PixelBox& first);
  // One frame on. Where the object is lost, its height is held (ByteTrack).
  void Predict(bool is_lost);
  void Update(const PixelBox& measured);
  PixelBox box() const;

 private:
  struct Axis {
    double value = 0;
    double speed = 0;
    double p_value = 0;  // the covariance [p_value, p_both; p_both, p_speed]
    double p_both = 0;
    double p_speed = 0;
  };
  std::array<Axis, 4> axes_;  // centre x, centre y, width / height, height
};

}  // namespace moka

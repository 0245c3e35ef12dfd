// The arithmetic of convolutions over memory whose innermost dimension is a block of images ("Abcd16a": [N/L,C,H,W,L]):
// a register is one element of L images, so any number of channels fills the registers. One table of functions an
// instruction set. Plain types only: the sources behind the tables are compiled for wider instructions than the rest.
#pragma once

#include <cstdint>

namespace moka::batch_lanes {

inline constexpr int kMostOutputs = 5;
inline constexpr int kMostPositions = 8;

// sum(o, p) = sum over channels, rows and taps of w(o) x(p), for `outputs` channels and `positions` of one output row;
// x(p) = x[channel*x_channel + row*x_row + tap*x_tap + p*x_step], w(o) = w[channel*w_channel + row*w_row + tap*w_tap +
// o]. All steps are in floats.
struct Product {
  const float* x = nullptr;
  int64_t x_step = 0;
  int64_t x_channel = 0;
  int64_t x_row = 0;
  int64_t x_tap = 0;
  const float* w = nullptr;
  int64_t w_channel = 0;
  int64_t w_row = 0;
  int64_t w_tap = 0;
  int64_t channels = 0;
  int64_t rows = 0;
  int64_t taps = 0;
  // y(o, p) = max(floor, sum(o, p) + start), where start is bias[o]*lanes[L] or, without bias, what y holds.
  float* y = nullptr;
  int64_t y_step = 0;
  int64_t y_output = 0;
  const float* bias = nullptr;
  const float* lanes = nullptr;  // 1 for images, 0 for padding
  float floor = 0;
  int64_t outputs = 0;
  int64_t positions = 0;
};

// sums[tap][output][L] += sum over rows and positions of x(tap) dy(output).
struct Correlation {
  const float* x = nullptr;
  int64_t x_step = 0;  // from one position to the next
  int64_t x_row = 0;
  int64_t x_tap = 0;
  const float* dy = nullptr;
  int64_t dy_step = 0;
  int64_t dy_row = 0;
  int64_t dy_output = 0;
  float* sums = nullptr;
  int64_t rows = 0;
  int64_t positions = 0;
  int64_t outputs = 0;
  int64_t taps = 0;
};

// Max pooling of one plane [height][width][L], forward (x to y and argmax) or backward (dy and chosen to dx).
struct PoolPlane {
  const float* x = nullptr;
  float* y = nullptr;
  uint8_t* argmax = nullptr;  // row-major in the window
  const float* dy = nullptr;
  const uint8_t* chosen = nullptr;
  float* dx = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t kernel_height = 0;
  int64_t kernel_width = 0;
  int64_t stride_height = 0;
  int64_t stride_width = 0;
  int64_t pad_top = 0;
  int64_t pad_left = 0;
  bool clears = false;  // dx has elements that are in no window or in several
};

struct Functions {
  int lanes = 0;    // 0: this build has not got the instructions
  int outputs = 0;  // the most of one call
  // The most positions (taps) of one call with so many outputs.
  int (*most_positions)(int64_t outputs) = nullptr;
  void (*multiply)(const Product& product) = nullptr;
  // to[position][output][L] = dy[output*step + position*L ..].
  void (*gather)(const float* dy, int64_t step, int64_t outputs, int64_t positions, float* to) = nullptr;
  void (*correlate)(const Correlation& correlation) = nullptr;
  // to[i] = the sum of the lanes of the vectors x[i*length, (i+1)*length), i < count. `to` may be x.
  void (*sum)(const float* x, int64_t count, int64_t length, float* to) = nullptr;
  void (*pool)(const PoolPlane& plane) = nullptr;
  void (*pool_backward)(const PoolPlane& plane) = nullptr;
};

// To be called on machines that have the instructions only.
const Functions& Avx2Functions();
const Functions& Avx512Functions();

}  // namespace moka::batch_lanes

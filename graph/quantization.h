// The measurements of a net's calibration: the ranges by which its convolutions run on 8-bit integers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moka {

// Ranges of one convolution, folded as inference runs it.
struct ConvolutionRanges {
  double input_low = 0;   // smallest value seen
  double input_high = 0;  // magnitude that the largest integer stands for
  double output_low = 0;
  double output_high = 0;
  std::vector<double> weights;  // largest magnitude of each output's weights
  uint64_t checksum = 0;        // of the layer's weights as they were trained; 0: not known
};

struct Quantization {
  std::map<std::string, ConvolutionRanges> convolutions;  // by layer
  // Weights lie in [-weight_limit, weight_limit]: 127, or 63 where products of uint8 and int8 are added in pairs in 16
  // bits (x86 before VNNI).
  int weight_limit = 127;
  std::string file;  // that they were read from
};

}  // namespace moka

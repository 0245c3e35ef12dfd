// The nodes of a convolution: Conv, and behind it the Add and the Relu that were joined with it.
#pragma once

#include <string>
#include <vector>

#include "tools/exchange/onnx_op.h"

namespace moka {

// Writes a node with the attributes of a convolution. `inputs`: x, weights and, if there is one, the bias.
class ConvolutionWriter {
 public:
  ConvolutionWriter(OnnxNode& n, std::vector<std::string> inputs);

  // Adds this value to the result, in front of the activation.
  void Sum(std::string value) { summand_ = std::move(value); }
  // The result as the node's output.
  void Give() { Write(true); }
  // The same with a name of its own, which is returned.
  std::string Add() { return Write(false); }

 private:
  std::string Write(bool gives);

  OnnxNode& n_;
  std::vector<std::string> inputs_;
  std::string summand_;
};

}  // namespace moka

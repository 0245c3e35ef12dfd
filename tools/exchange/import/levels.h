// The integers of QuantizeLinear and DequantizeLinear: value = (q - zero) * scale.
#pragma once

#include "core/types.h"
#include "tools/exchange/import/node_attributes.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

// The numbers that 8-bit integers of one scale stand for.
struct Levels {
  float scale = 1;
  int64_t zero = 0;
  int64_t least = 0;  // of the type: 0 and 255, or -128 and 127
  int64_t most = 255;

  double low() const { return static_cast<double>(least - zero) * static_cast<double>(scale); }
  double high() const { return static_cast<double>(most - zero) * static_cast<double>(scale); }
  friend bool operator==(const Levels&, const Levels&) = default;
};

// The integers of a QuantizeLinear's type, scale 1 and zero point 0. `zero`: its zero point, or null. Errors: kConfig
// for a type that is not of 8 bits.
Levels LevelsOfType(const OnnxTensor* zero, const NodeAttributes& attributes);

}  // namespace moka

// Windows of convolution and pooling as ONNX says them, checked.
#pragma once

#include <string>

#include "tools/exchange/import/layer_making.h"

namespace moka {

// One number for each spatial axis.
struct Windows {
  Ints kernel;
  Ints stride;
  Ints dilation;
  Ints begin;  // pads
  Ints end;
};

// The windows of the node whose first input is [N,C,spatial..]; `kernel` is what the attribute must say, or empty.
// Errors: kConfig for lists of another length and numbers that no layer takes.
Windows WindowsOf(const ImportNode& node, Ints kernel);

bool AreAll(const Ints& values, int64_t value);
// One value for all axes where they are equal, or one each.
template <class Field>
void SetEach(const Ints& values, Field& field) {
  const bool are_equal = AreAll(values, values.front());
  for (size_t i = 0; i < (are_equal ? 1 : values.size()); ++i) field.Add(static_cast<uint32_t>(values[i]));
}
// Pads of the sides of a picture.
template <class Parameter>
void SetSides(const Windows& w, Parameter& p) {
  p.set_pad_t(static_cast<uint32_t>(w.begin[0]));
  p.set_pad_l(static_cast<uint32_t>(w.begin[1]));
  p.set_pad_b(static_cast<uint32_t>(w.end[0]));
  p.set_pad_r(static_cast<uint32_t>(w.end[1]));
}

// The blob with a border around its spatial axes, by a Pad layer.
std::string Padded(ImportNode& node, const std::string& blob, const Ints& begin, const Ints& end, float value);

}  // namespace moka

// The shape of x as an attribute of the op that makes dx.
#pragma once

#include <utility>
#include <vector>

#include "graph/op.h"
#include "layers/ops/gradients.h"

namespace moka {

inline std::vector<AttributeSpec> WithInputShape(std::vector<AttributeSpec> specs) {
  specs.push_back({"input_shape", {}, "the full shape of dx"});
  return specs;
}

inline Attributes WithInputShape(Attributes attributes, const Shape& x) {
  attributes.Set("input_shape", DimsOf(x));
  return attributes;
}

// Cases of the gradient of x, bottom 0: dy in its place, of the shape that infer gives the forward case.
inline std::vector<OpCase> BackwardOf(std::vector<OpCase> cases, decltype(OpDef::infer) infer) {
  for (OpCase& c : cases) {
    const Shape x = c.inputs[0].shape;
    c.inputs[0].shape = infer(c.attributes, c.inputs)[0].shape;
    c.attributes = WithInputShape(std::move(c.attributes), x);
  }
  return cases;
}

}  // namespace moka

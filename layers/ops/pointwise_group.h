// How the tensors of a pointwise_group are numbered: the members' inputs one member after another, then what they
// share; the members' outputs one member after another.
#pragma once

#include <vector>

#include "graph/attributes.h"
#include "graph/expression.h"
#include "graph/kernel.h"

namespace moka {

struct GroupSizes {
  size_t members = 0;
  size_t inputs = 0;   // of a member, x0..
  size_t results = 0;  // of a member
  size_t shared = 0;   // scalars, after a member's inputs in the expressions

  // Requires: attributes that infer accepted.
  explicit GroupSizes(const Attributes& attributes);
  // The types a pointwise over one member would have.
  std::vector<TensorType> InputsOf(size_t member, std::span<const TensorType> inputs) const;
  std::vector<TensorType> OutputsOf(size_t member, std::span<const TensorType> outputs) const;
  std::vector<Tensor> InputsOf(size_t member, std::span<const Tensor> inputs) const;
  std::vector<Tensor> OutputsOf(size_t member, std::span<const Tensor> outputs) const;
};

}  // namespace moka

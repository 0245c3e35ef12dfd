// How the tensors of a group (pointwise_group, reduce_group) are numbered: the members' inputs one member after
// another, each its tensors and then its scalars, then what all share; the members' outputs one member after another.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/expression.h"
#include "graph/kernel.h"
#include "graph/op.h"

namespace moka {

struct GroupSizes {
  size_t members = 0;
  size_t tensors = 0;  // of a member, of one shape: x0..
  size_t inputs = 0;   // of a member: the tensors, then scalars of its own
  size_t results = 0;  // of a member
  size_t shared = 0;   // scalars, after a member's inputs in the expressions

  // Requires: attributes that InferGroup accepted.
  explicit GroupSizes(const Attributes& attributes);

  // Return the part that belongs to one member: the types, tensors or values a node over it alone would have.
  template <class T>
  std::vector<T> InputsOf(size_t member, std::span<const T> all) const {
    std::vector<T> own = Slice(all, member * inputs, inputs);
    const std::span<const T> common = all.last(shared);
    own.insert(own.end(), common.begin(), common.end());
    return own;
  }
  template <class T>
  std::vector<T> OutputsOf(size_t member, std::span<const T> all) const {
    return Slice(all, member * results, results);
  }

 private:
  template <class T>
  static std::vector<T> Slice(std::span<const T> all, size_t first, size_t count) {
    const std::span<const T> part = all.subspan(first, count);
    return {part.begin(), part.end()};
  }
};

// The outputs of all members. `results_of` gives those of one from its shape and types. Errors: kConfig where the
// counts or a member's shapes or types do not fit.
std::vector<TensorType> InferGroup(std::string_view op, const Attributes& attributes,
                                   std::span<const TensorType> inputs,
                                   std::vector<TensorType> (*results_of)(const Attributes& attributes,
                                                                         std::span<const TensorType> own));

// A case: `members` are their shapes, each with `tensors` of it and `scalars`; `shared` scalars follow.
OpCase GroupCase(std::string name, Strings exprs, const std::vector<Shape>& members, int tensors, int scalars,
                 int shared);

// exprs, members, scalars, shared, dtypes.
std::vector<AttributeSpec> GroupAttributes();

}  // namespace moka

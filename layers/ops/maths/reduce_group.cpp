// Several sums of the same expression over all of a tensor as one: y_m = sum over i of e(x_{m,0}[i], .., s_0, ..) for
// every member m. The norms and checks of many small parameters are then one kernel. There is no gradient: groups are
// formed once gradients are there.
#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/maths/broadcast.h"
#include "layers/ops/maths/group.h"

namespace moka {
namespace {

// As reduce_sum over every axis gives it.
std::vector<TensorType> ReduceGroupResultsOf(const Attributes& attributes, std::span<const TensorType> own) {
  Shape ones = own[0].shape;
  for (int axis = 0; axis < ones.rank(); ++axis) ones = ones.With(axis, 1);
  return ResultTypes("reduce_group", attributes, 1, own, ones);
}

std::vector<TensorType> InferReduceGroup(const Attributes& attributes, std::span<const TensorType> inputs) {
  const size_t results = attributes.Get<Strings>("exprs").size();
  if (results != 1) {
    throw Error(ErrorKind::kConfig, StrCat("reduce_group: one expression is summed, not ", results));
  }
  return InferGroup("reduce_group", attributes, inputs, ReduceGroupResultsOf);
}

void ReduceGroupReference(const Attributes& attributes, std::span<const RefTensor> inputs,
                          std::span<RefTensor> outputs) {
  const GroupSizes sizes(attributes);
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<RefTensor> own = sizes.InputsOf(m, inputs);
    double& sum = outputs[m].values[0];
    sum = 0;
    EvaluateEverywhere(expression, own[0].type.shape, own,
                       [&](int64_t, std::span<const double> results) { sum += results[0]; });
  }
}

int64_t ReduceGroupFlops(const Attributes& attributes, std::span<const TensorType> inputs,
                         std::span<const TensorType>) {
  const GroupSizes sizes(attributes);
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  const auto operations =
      std::ranges::count_if(expression.instructions(), [](const Instruction& x) { return x.a >= 0; });
  int64_t elements = 0;
  for (size_t m = 0; m < sizes.members; ++m) elements += inputs[m * sizes.inputs].shape.Count();
  return (operations + 1) * elements;
}

std::vector<OpCase> ReduceGroupCases() {
  return {GroupCase("squares", {"x0*x0"}, {{6, 4, 3, 3}, {6}, {5, 7}, {20011}}, 1, 0, 0),
          GroupCase("scaled_squares", {"(x0*x1)*(x0*x1)"}, {{33}, {2, 8, 4, 4}, {}}, 1, 0, 1),
          GroupCase("not_finite", {"select(le(abs(x0),3e38),0,1)"}, {{17}, {3, 3}}, 1, 0, 0),
          GroupCase("products", {"x0*x1*x2"}, {{5}, {300, 3}}, 2, 1, 0),
          GroupCase("with_an_empty_member", {"x0"}, {{5}, {0, 3}, {7}}, 1, 0, 0)};
}

}  // namespace

OpDef ReduceGroupOp() {
  return {.name = "reduce_group",
          .doc =
              "The sums of one elementwise expression over all elements of several members: each member's tensors "
              "and scalars, then scalars that all share; one number a member, of its axes as 1.",
          .attributes = GroupAttributes(),
          .infer = InferReduceGroup,
          .reference = ReduceGroupReference,
          .precision = Precision::kKeep32,
          .flops = ReduceGroupFlops,
          .cases = ReduceGroupCases};
}

}  // namespace moka

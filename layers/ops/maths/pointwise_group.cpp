// Several pointwise nodes of the same expressions as one: y_{m,j} = e_j(x_{m,0}, x_{m,1}, .., s_0, s_1, ..) for every
// member m, whose tensors have one shape, and scalars s that all members share. Updates of many small parameters are
// then one kernel. There is no gradient: groups are formed once gradients are there.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/maths/broadcast.h"
#include "layers/ops/maths/group.h"

namespace moka {
namespace {

std::vector<TensorType> PointwiseGroupResultsOf(const Attributes& attributes, std::span<const TensorType> own) {
  return ResultTypes("pointwise_group", attributes, GroupSizes(attributes).results, own, own[0].shape);
}

std::vector<TensorType> InferPointwiseGroup(const Attributes& attributes, std::span<const TensorType> inputs) {
  return InferGroup("pointwise_group", attributes, inputs, PointwiseGroupResultsOf);
}

void PointwiseGroupReference(const Attributes& attributes, std::span<const RefTensor> inputs,
                             std::span<RefTensor> outputs) {
  const GroupSizes sizes(attributes);
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<RefTensor> own = sizes.InputsOf(m, inputs);
    EvaluateEverywhere(expression, own[0].type.shape, own, [&](int64_t i, std::span<const double> results) {
      for (size_t j = 0; j < sizes.results; ++j) {
        outputs[m * sizes.results + j].values[static_cast<size_t>(i)] = results[j];
      }
    });
  }
}

// A member's elements are read before they are written; those of other members may be written at any time, and its
// scalars are read for every element.
bool PointwiseGroupMayOverwrite(const Attributes& attributes, int input, int output) {
  const GroupSizes sizes(attributes);
  const auto i = static_cast<size_t>(input);
  return i / sizes.inputs == static_cast<size_t>(output) / sizes.results && i % sizes.inputs < sizes.tensors;
}

int64_t PointwiseGroupFlops(const Attributes& attributes, std::span<const TensorType>,
                            std::span<const TensorType> outputs) {
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  const auto operations =
      std::ranges::count_if(expression.instructions(), [](const Instruction& x) { return x.a >= 0; });
  int64_t elements = 0;
  for (size_t o = 0; o < outputs.size(); o += expression.results().size()) elements += outputs[o].shape.Count();
  return operations * elements;
}

std::vector<OpCase> PointwiseGroupCases() {
  return {GroupCase("sgd_momentum", {"x0-(0.9*x2+x3*(x1+5e-4*x0))", "0.9*x2+x3*(x1+5e-4*x0)"},
                    {{6, 4, 3, 3}, {6}, {5, 7}, {4096, 3}}, 3, 0, 1),
          GroupCase(
              "adam",
              {"x0-x4*(0.9*x2+0.1*x1)/(sqrt(0.999*x3+0.001*(x1*x1))+1e-8)", "0.9*x2+0.1*x1", "0.999*x3+0.001*(x1*x1)"},
              {{33}, {2, 8, 4, 4}, {}}, 4, 0, 1),
          GroupCase("lars", {"x0-(0.9*x2+x4*x3*x1)", "0.9*x2+x4*x3*x1"}, {{6, 4, 3, 3}, {4096, 3}, {5}}, 3, 1, 1),
          GroupCase("guarded", {"select(x3,x0-x2*x1,x0)"}, {{17}, {1}, {3, 3}}, 2, 0, 2),
          GroupCase("alone", {"x0*2"}, {{11}}, 1, 0, 0),
          GroupCase("with_an_empty_member", {"x0*x1"}, {{5}, {0, 3}, {7}}, 2, 0, 0)};
}

}  // namespace

OpDef PointwiseGroupOp() {
  return {.name = "pointwise_group",
          .doc =
              "The same elementwise expressions over several members: each member's tensors and scalars, then "
              "scalars that all share; each member's results.",
          .attributes = GroupAttributes(),
          .infer = InferPointwiseGroup,
          .reference = PointwiseGroupReference,
          .may_overwrite = PointwiseGroupMayOverwrite,
          .precision = Precision::kKeep32,
          .flops = PointwiseGroupFlops,
          .cases = PointwiseGroupCases};
}

}  // namespace moka

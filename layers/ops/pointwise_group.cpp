// Several pointwise nodes of the same expressions as one: y_{m,j} = e_j(x_{m,0}, x_{m,1}, .., s_0, s_1, ..) for every
// member m, whose inputs have one shape, and scalars s that all members share. Updates of many small parameters are
// then one kernel. There is no gradient: groups are formed once gradients are there.
#include "layers/ops/pointwise_group.h"

#include <algorithm>

#include "core/text.h"
#include "layers/ops/broadcast.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/ops.h"

namespace moka {
namespace {

constexpr std::string_view kName = "pointwise_group";

template <class T>
std::vector<T> Slice(std::span<const T> all, size_t first, size_t count) {
  const std::span<const T> part = all.subspan(first, count);
  return {part.begin(), part.end()};
}

template <class T>
std::vector<T> MemberInputs(const GroupSizes& sizes, size_t member, std::span<const T> inputs) {
  std::vector<T> own = Slice(inputs, member * sizes.inputs, sizes.inputs);
  const std::span<const T> shared = inputs.last(sizes.shared);
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

void CheckGroup(const Attributes& attributes, std::span<const TensorType> inputs) {
  const int64_t members = attributes.Int("members");
  const int64_t shared = attributes.Int("shared");
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  const int64_t used = expression.input_count();
  if (members < 1 || shared < 0 || used <= shared || expression.results().empty()) {
    throw Error(ErrorKind::kConfig,
                StrCat(kName, ": ", members, " members that share ", shared, " scalars, ", expression.results().size(),
                       " expressions over ", used, " inputs; each member needs an input of its own and a result"));
  }
  const int64_t expected = members * (used - shared) + shared;
  if (static_cast<int64_t>(inputs.size()) == expected) return;
  throw Error(ErrorKind::kConfig, StrCat(kName, ": ", members, " members of ", used - shared, " inputs and ", shared,
                                         " shared scalars are ", expected, " inputs, not ", inputs.size()));
}

std::vector<TensorType> Infer(const Attributes& attributes, std::span<const TensorType> inputs) {
  CheckGroup(attributes, inputs);
  const GroupSizes sizes(attributes);
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  std::vector<TensorType> outputs;
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<TensorType> own = sizes.InputsOf(m, inputs);
    for (size_t i = 0; i < sizes.inputs; ++i) {
      const std::string name = StrCat("input ", m * sizes.inputs + i);
      CheckShape(kName, name, own[i].shape, own[0].shape, "the shape of the member's first input");
      CheckSameDType(kName, name, own[i], StrCat("input ", i, " (of the first member)"), inputs[i]);
    }
    for (size_t i = sizes.inputs; i < own.size(); ++i) {
      CheckShape(kName, StrCat("shared input ", i - sizes.inputs), own[i].shape, Shape{}, "a scalar");
    }
    CheckExpressionInputs(kName, expression, own);
    const std::vector<TensorType> results = ResultTypes(kName, attributes, sizes.results, own, own[0].shape);
    outputs.insert(outputs.end(), results.begin(), results.end());
  }
  return outputs;
}

void Reference(const Attributes& attributes, std::span<const RefTensor> inputs, std::span<RefTensor> outputs) {
  const GroupSizes sizes(attributes);
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<RefTensor> own = MemberInputs(sizes, m, inputs);
    EvaluateEverywhere(expression, own[0].type.shape, own, [&](int64_t i, std::span<const double> results) {
      for (size_t j = 0; j < sizes.results; ++j) {
        outputs[m * sizes.results + j].values[static_cast<size_t>(i)] = results[j];
      }
    });
  }
}

// A member's elements are read before they are written; those of other members may be written at any time.
bool MayOverwrite(const Attributes& attributes, int input, int output) {
  const GroupSizes sizes(attributes);
  return static_cast<size_t>(input) / sizes.inputs == static_cast<size_t>(output) / sizes.results;
}

int64_t Flops(const Attributes& attributes, std::span<const TensorType>, std::span<const TensorType> outputs) {
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  const auto operations =
      std::ranges::count_if(expression.instructions(), [](const Instruction& x) { return x.a >= 0; });
  int64_t elements = 0;
  for (size_t o = 0; o < outputs.size(); o += expression.results().size()) elements += outputs[o].shape.Count();
  return operations * elements;
}

OpCase Case(std::string name, Strings exprs, const std::vector<Shape>& members, int inputs, int shared) {
  OpCase c;
  c.name = std::move(name);
  c.attributes = {{"exprs", std::move(exprs)},
                  {"members", static_cast<int64_t>(members.size())},
                  {"shared", static_cast<int64_t>(shared)}};
  c.low = 0.1;
  c.high = 0.9;
  for (const Shape& shape : members) c.inputs.insert(c.inputs.end(), static_cast<size_t>(inputs), {{}, shape, {}});
  c.inputs.insert(c.inputs.end(), static_cast<size_t>(shared), {{}, Shape{}, {}});
  return c;
}

std::vector<OpCase> Cases() {
  return {Case("sgd_momentum", {"x0-(0.9*x2+x3*(x1+5e-4*x0))", "0.9*x2+x3*(x1+5e-4*x0)"},
               {{6, 4, 3, 3}, {6}, {5, 7}, {4096, 3}}, 3, 1),
          Case("adam",
               {"x0-x4*(0.9*x2+0.1*x1)/(sqrt(0.999*x3+0.001*(x1*x1))+1e-8)", "0.9*x2+0.1*x1", "0.999*x3+0.001*(x1*x1)"},
               {{33}, {2, 8, 4, 4}, {}}, 4, 1),
          Case("guarded", {"select(x3,x0-x2*x1,x0)"}, {{17}, {1}, {3, 3}}, 2, 2), Case("alone", {"x0*2"}, {{11}}, 1, 0),
          Case("with_an_empty_member", {"x0*x1"}, {{5}, {0, 3}, {7}}, 2, 0)};
}

}  // namespace

GroupSizes::GroupSizes(const Attributes& attributes)
    : members(static_cast<size_t>(attributes.Int("members"))), shared(static_cast<size_t>(attributes.Int("shared"))) {
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  inputs = static_cast<size_t>(expression.input_count()) - shared;
  results = expression.results().size();
}

std::vector<TensorType> GroupSizes::InputsOf(size_t member, std::span<const TensorType> all) const {
  return MemberInputs(*this, member, all);
}
std::vector<TensorType> GroupSizes::OutputsOf(size_t member, std::span<const TensorType> all) const {
  return Slice(all, member * results, results);
}
std::vector<Tensor> GroupSizes::InputsOf(size_t member, std::span<const Tensor> all) const {
  return MemberInputs(*this, member, all);
}
std::vector<Tensor> GroupSizes::OutputsOf(size_t member, std::span<const Tensor> all) const {
  return Slice(all, member * results, results);
}

OpDef PointwiseGroupOp() {
  return {
      .name = "pointwise_group",
      .doc =
          "The same elementwise expressions over several members: each member's inputs, then scalars that all "
          "share; each member's results.",
      .attributes = {{"exprs", std::nullopt, "one expression a result of a member (graph/expression.h)"},
                     {"members", std::nullopt, "number of members"},
                     {"shared", int64_t{0}, "number of scalars that all members share"},
                     {"dtypes", Strings{}, "element types of a member's results; none: of its first floating input"}},
      .infer = Infer,
      .reference = Reference,
      .may_overwrite = MayOverwrite,
      .precision = Precision::kKeep32,
      .flops = Flops,
      .cases = Cases};
}

}  // namespace moka

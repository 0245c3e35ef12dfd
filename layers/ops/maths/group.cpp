// A group's attributes are those of one member (expressions, element types) and counts; the checks here let kernels
// index inputs and outputs without any.
#include "layers/ops/maths/group.h"

#include "core/error.h"
#include "core/text.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/broadcast.h"

namespace moka {
namespace {

void CheckGroupCounts(std::string_view op, const Attributes& attributes, std::span<const TensorType> inputs) {
  const int64_t members = attributes.Int("members");
  const int64_t scalars = attributes.Int("scalars");
  const int64_t shared = attributes.Int("shared");
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  const int64_t used = expression.input_count();
  if (members < 1 || scalars < 0 || shared < 0 || used <= shared + scalars || expression.results().empty()) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": ", members, " members with ", scalars, " scalars each that share ",
                                           shared, ", ", expression.results().size(), " expressions over ", used,
                                           " inputs; each member needs a tensor of its own and a result"));
  }
  const int64_t expected = members * (used - shared) + shared;
  if (static_cast<int64_t>(inputs.size()) == expected) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", members, " members of ", used - shared, " inputs and ", shared,
                                         " shared scalars are ", expected, " inputs, not ", inputs.size()));
}

}  // namespace

GroupSizes::GroupSizes(const Attributes& attributes)
    : members(static_cast<size_t>(attributes.Int("members"))), shared(static_cast<size_t>(attributes.Int("shared"))) {
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  inputs = static_cast<size_t>(expression.input_count()) - shared;
  tensors = inputs - static_cast<size_t>(attributes.Int("scalars"));
  results = expression.results().size();
}

std::vector<TensorType> InferGroup(std::string_view op, const Attributes& attributes,
                                   std::span<const TensorType> inputs,
                                   std::vector<TensorType> (*results_of)(const Attributes& attributes,
                                                                         std::span<const TensorType> own)) {
  CheckGroupCounts(op, attributes, inputs);
  const GroupSizes sizes(attributes);
  const Expression expression = Expression::Parse(attributes.Get<Strings>("exprs"));
  std::vector<TensorType> outputs;
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<TensorType> own = sizes.InputsOf(m, inputs);
    for (size_t i = 0; i < own.size(); ++i) {
      const bool is_shared = i >= sizes.inputs;
      const std::string name =
          is_shared ? StrCat("shared input ", i - sizes.inputs) : StrCat("input ", m * sizes.inputs + i);
      if (i < sizes.tensors) {
        CheckShape(op, name, own[i].shape, own[0].shape, "the shape of the member's first input");
      } else {
        CheckShape(op, name, own[i].shape, Shape{}, "a scalar");
      }
      if (!is_shared) CheckSameDType(op, name, own[i], StrCat("input ", i, " (of the first member)"), inputs[i]);
    }
    CheckExpressionInputs(op, expression, own);
    const std::vector<TensorType> results = results_of(attributes, own);
    outputs.insert(outputs.end(), results.begin(), results.end());
  }
  return outputs;
}

OpCase GroupCase(std::string name, Strings exprs, const std::vector<Shape>& members, int tensors, int scalars,
                 int shared) {
  OpCase c;
  c.name = std::move(name);
  c.attributes = {{"exprs", std::move(exprs)},
                  {"members", static_cast<int64_t>(members.size())},
                  {"scalars", static_cast<int64_t>(scalars)},
                  {"shared", static_cast<int64_t>(shared)}};
  c.low = 0.1;
  c.high = 0.9;
  const auto add = [&](int count, const Shape& shape) {
    c.inputs.insert(c.inputs.end(), static_cast<size_t>(count), {{}, shape, {}});
  };
  for (const Shape& shape : members) {
    add(tensors, shape);
    add(scalars, Shape{});
  }
  add(shared, Shape{});
  return c;
}

std::vector<AttributeSpec> GroupAttributes() {
  return {{"exprs", std::nullopt, "one expression a result of a member (graph/expression.h)"},
          {"members", std::nullopt, "number of members"},
          {"scalars", int64_t{0}, "number of scalars of each member, after its tensors"},
          {"shared", int64_t{0}, "number of scalars that all members share"},
          {"dtypes", Strings{}, "element types of a member's results; none: of its first floating input"}};
}

}  // namespace moka

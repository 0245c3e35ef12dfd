// The result's shape, the axes over which a gradient is summed back, and the removal of operands that an expression
// does not read.
#include "layers/ops/maths/broadcast.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {

Shape BroadcastShape(std::string_view op, std::span<const TensorType> inputs) {
  Shape shape;
  size_t widest = 0;  // the input the shape came from, for the message
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& next = inputs[i].shape;
    if (next.rank() == 0) continue;
    bool agrees = shape.rank() == 0 || shape.rank() == next.rank();
    if (shape.rank() == 0) {
      shape = next;
      widest = i;
      continue;
    }
    for (int axis = 0; agrees && axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) shape = shape.With(axis, next[axis]);
      agrees = next[axis] == shape[axis] || next[axis] == 1;
    }
    if (!agrees) {
      throw Error(ErrorKind::kConfig,
                  StrCat(op, ": input ", i, " of shape ", next.ToString(), " does not broadcast with input ", widest,
                         " of shape ", inputs[widest].shape.ToString(),
                         "; ranks must be equal and dimensions equal or 1, or one a scalar"));
    }
  }
  return shape;
}

DType ResultDType(std::span<const TensorType> inputs) {
  const auto it = std::ranges::find_if(inputs, [](const TensorType& type) { return IsFloat(type.dtype); });
  return it == inputs.end() ? DType::kFloat32 : it->dtype;
}

DType NamedResultDType(std::string_view op, std::string_view name, std::span<const TensorType> inputs) {
  if (name.empty()) return ResultDType(inputs);
  const DType dtype = DTypeNamed(op, name);
  if (IsFloat(dtype)) return dtype;
  throw Error(ErrorKind::kConfig, StrCat(op, ": results are of a floating type, and dtype says ", name));
}

std::vector<TensorType> ResultTypes(std::string_view op, const Attributes& attributes, size_t results,
                                    std::span<const TensorType> inputs, const Shape& shape) {
  const Strings dtypes = attributes.Has("dtypes") ? attributes.Get<Strings>("dtypes") : Strings{};
  if (!dtypes.empty() && dtypes.size() != results) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": ", dtypes.size(), " dtypes for ", results, " expressions; give each one, or none"));
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < results; ++i) {
    types.push_back(PlainType(NamedResultDType(op, dtypes.empty() ? "" : dtypes[i], inputs), shape));
  }
  return types;
}

ValueId LikeInput(const GraphBuilder& b, ValueId gradient, ValueId input) {
  const DType dtype = b.type(input).dtype;
  if (b.type(gradient).dtype == dtype) return gradient;
  return b.Add1("cast", {gradient}, {{"dtype", std::string(NameOf(dtype))}});
}

Ints BroadcastAxes(const Shape& from, const Shape& to) {
  Ints axes;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (from.rank() == 0 || (from[axis] == 1 && to[axis] != 1)) axes.push_back(axis);
  }
  return axes;
}

void CheckExpressionInputs(std::string_view op, const Expression& expression, std::span<const TensorType> inputs) {
  const auto used = static_cast<size_t>(expression.input_count());
  if (inputs.empty() || used > inputs.size()) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": the expression reads input ", expression.input_count() - 1,
                                           " but there are ", inputs.size(), " inputs"));
  }
  for (const Instruction& x : expression.instructions()) {
    if (x.op != ScalarOp::kRand) continue;
    const int32_t key = expression.instructions()[static_cast<size_t>(x.a)].input;
    const TensorType& type = inputs[static_cast<size_t>(key)];
    if (type.shape.Count() == 1) continue;
    throw Error(ErrorKind::kConfig, StrCat(op, ": rand's key, input ", key, ", has shape ", type.shape.ToString(),
                                           " but must have one element"));
  }
}

void EvaluateEverywhere(const Expression& expression, const Shape& shape, std::span<const RefTensor> inputs,
                        const std::function<void(int64_t, std::span<const double>)>& f) {
  std::vector<double> at(inputs.size());
  std::vector<double> results(expression.results().size());
  VisitElements(shape, [&](const Index& index, int64_t offset) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& own = inputs[i].type.shape;
      Index own_index{};
      for (int axis = 0; axis < own.rank(); ++axis) {
        const auto a = static_cast<size_t>(axis);
        own_index[a] = own[axis] == 1 ? 0 : index[a];
      }
      at[i] = inputs[i].values[static_cast<size_t>(RowMajor(own, own_index))];
    }
    expression.Evaluate(at, static_cast<uint64_t>(offset), results);
    f(offset, results);
  });
}

Compacted Compact(const Expression& expression, std::span<const ValueId> values) {
  Compacted compacted;
  std::vector<int> map(values.size(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!expression.UsesInput(static_cast<int>(i))) continue;
    map[i] = static_cast<int>(compacted.inputs.size());
    compacted.inputs.push_back(values[i]);
  }
  compacted.expression = expression.Renumber(map);
  return compacted;
}

}  // namespace moka

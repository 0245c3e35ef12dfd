// The broadcast rule of pointwise and reduce_sum: ranks equal with dimensions equal or 1, or rank 0 (a scalar).
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/expression.h"
#include "graph/op.h"

namespace moka {

// The common shape. Errors: kConfig naming the inputs that disagree.
Shape BroadcastShape(std::string_view op, std::span<const TensorType> inputs);
// The dtype of results: the first floating input's, float32 if there is none.
DType ResultDType(std::span<const TensorType> inputs);
// The dtype an attribute of a node names; "" stands for ResultDType. Errors: kConfig unless it is a floating one.
DType NamedResultDType(std::string_view op, std::string_view name, std::span<const TensorType> inputs);
// Plain types of that shape, one a result: of what the attribute "dtypes" names, where it is given and not empty one
// each. Errors: kConfig for another number of names and those of NamedResultDType.
std::vector<TensorType> ResultTypes(std::string_view op, const Attributes& attributes, size_t results,
                                    std::span<const TensorType> inputs, const Shape& shape);
// A gradient in the dtype of the value it is of.
ValueId LikeInput(const GraphBuilder& b, ValueId gradient, ValueId input);
// Axes along which `from` is repeated to become `to`: all of them for a scalar.
Ints BroadcastAxes(const Shape& from, const Shape& to);
// Errors: kConfig unless there are inputs, as many as the expression uses, with one-element keys for rand.
void CheckExpressionInputs(std::string_view op, const Expression& expression, std::span<const TensorType> inputs);
// Calls f(row-major index in `shape`, values) with the results of the expression at every element.
void EvaluateEverywhere(const Expression& expression, const Shape& shape, std::span<const RefTensor> inputs,
                        const std::function<void(int64_t, std::span<const double>)>& f);
// An expression over only the inputs it uses, and which of `values` they are.
struct Compacted {
  Expression expression;
  std::vector<ValueId> inputs;
};
Compacted Compact(const Expression& expression, std::span<const ValueId> values);

}  // namespace moka

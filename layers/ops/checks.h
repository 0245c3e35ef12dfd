// Checks the infer functions share. Every message starts with the op's name and carries the shapes found.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/op.h"

namespace moka {

// Errors: kConfig unless least <= inputs.size() <= most.
void CheckInputCount(std::string_view op, std::span<const TensorType> inputs, size_t least, size_t most);
// Errors: kConfig unless the type is a floating one.
void CheckFloat(std::string_view op, std::string_view name, const TensorType& type);
// Errors: kConfig unless a tensor has exactly this shape; `rule` says where the expectation comes from.
void CheckShape(std::string_view op, std::string_view name, const Shape& found, const Shape& expected,
                std::string_view rule);
// Errors: kConfig unless both have one dtype.
void CheckSameDType(std::string_view op, std::string_view name_a, const TensorType& a, std::string_view name_b,
                    const TensorType& b);
// Errors: kConfig unless activation is "" or "relu".
void CheckActivation(std::string_view op, const Attributes& attributes);

// For identities whose gradient has a number of its own (a threshold, a decay): x and, if the loss is scaled, the
// scalar it is scaled by. Errors: kConfig.
void CheckScaledIdentity(std::string_view op, std::span<const TensorType> inputs);
// Returns whether an input may be of a half type: x alone may (OpDef::takes_half).
inline bool IsScaledIdentity(const Attributes&, int input) { return input == 0; }
// The text of such a number in an expression over `inputs`, times the scale, which joins them.
std::string ScaledText(GradientContext& context, double number, std::vector<ValueId>& inputs);

// A plain type. Errors: size overflow if its bytes do not fit 63 bits.
TensorType PlainType(DType dtype, const Shape& shape);
// The type of sums and statistics over values of `dtype`: float32 for the half types, otherwise itself.
DType StatisticsType(DType dtype);
// Errors: kConfig with the nearest name.
DType DTypeNamed(std::string_view op, std::string_view name);
// The shape of an Ints attribute. Errors: kConfig on a negative dimension or too many.
Shape ShapeAttribute(std::string_view op, const Attributes& attributes, std::string_view name);

}  // namespace moka

// The refusals of infer functions; an op's name comes first, as a graph has many nodes of one op.
#include "layers/ops/checks.h"

#include <array>

#include "core/text.h"

namespace moka {

void CheckInputCount(std::string_view op, std::span<const TensorType> inputs, size_t least, size_t most) {
  if (inputs.size() >= least && inputs.size() <= most) return;
  const std::string range = least == most ? StrCat(least) : StrCat(least, " to ", most);
  throw Error(ErrorKind::kConfig, StrCat(op, " takes ", range, " inputs, found ", inputs.size()));
}

void CheckFloat(std::string_view op, std::string_view name, const TensorType& type) {
  if (IsFloat(type.dtype)) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " must have a floating type, found ", type.ToString()));
}

void CheckShape(std::string_view op, std::string_view name, const Shape& found, const Shape& expected,
                std::string_view rule) {
  if (found == expected) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " has shape ", found.ToString(), " but ", expected.ToString(),
                                         " is needed (", rule, ")"));
}

void CheckSameDType(std::string_view op, std::string_view name_a, const TensorType& a, std::string_view name_b,
                    const TensorType& b) {
  if (a.dtype == b.dtype) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": ", name_a, " is ", a.ToString(), " but ", name_b, " is ", b.ToString(),
                                         "; both need one element type"));
}

void CheckActivation(std::string_view op, const Attributes& attributes) {
  const std::string& activation = attributes.String("activation");
  if (activation.empty() || activation == "relu") return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": activation is \"", activation, "\" but only \"relu\" can be fused"));
}

void CheckScaledIdentity(std::string_view op, std::span<const TensorType> inputs) {
  CheckInputCount(op, inputs, 1, 2);
  CheckFloat(op, "x", inputs[0]);
  if (inputs.size() > 1) CheckShape(op, "the scale", inputs[1].shape, Shape{}, "a scalar");
}

std::string ScaledText(GradientContext& context, double number, std::vector<ValueId>& inputs) {
  if (context.input_count() == 1) return StrCat("(", number, ")");
  inputs.push_back(context.x(1));
  return StrCat("(", number, "*x", inputs.size() - 1, ")");
}

TensorType PlainType(DType dtype, const Shape& shape) {
  TensorType type{dtype, shape, {}};
  (void)type.Bytes();  // throws on overflow
  return type;
}

DType StatisticsType(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

DType DTypeNamed(std::string_view op, std::string_view name) {
  constexpr std::array kAll = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                               DType::kInt64,   DType::kInt32,   DType::kUInt8,   DType::kInt8};
  std::vector<std::string> names;
  for (const DType dtype : kAll) {
    if (NameOf(dtype) == name) return dtype;
    names.emplace_back(NameOf(dtype));
  }
  throw Error(ErrorKind::kConfig, {}, StrCat(op, ": there is no element type \"", name, "\""), DidYouMean(name, names));
}

Shape ShapeAttribute(std::string_view op, const Attributes& attributes, std::string_view name) {
  try {
    return Shape(attributes.Get<Ints>(name));
  } catch (Error& error) {
    error.AddNote(StrCat("attribute ", name, " of ", op));
    throw;
  }
}

}  // namespace moka

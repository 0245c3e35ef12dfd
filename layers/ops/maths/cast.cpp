// The same values in another element type.
#include <cmath>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"

namespace moka {
namespace {

std::vector<TensorType> InferCast(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("cast", in, 1, 1);
  return {PlainType(DTypeNamed("cast", attributes.String("dtype")), in[0].shape)};
}

// Integers take the value rounded towards zero. Rounding to a narrower floating type is not part of the meaning.
void CastReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const bool whole = !IsFloat(out[0].type.dtype);
  for (size_t i = 0; i < in[0].values.size(); ++i) {
    out[0].values[i] = whole ? std::trunc(in[0].values[i]) : in[0].values[i];
  }
}

void CastGradient(GradientContext& c) {
  const DType dtype = c.b().type(c.x(0)).dtype;
  if (!c.wants(0) || !IsFloat(dtype) || !IsFloat(c.b().type(c.y(0)).dtype)) return;
  c.SetDx(0, c.b().Add1("cast", {c.dy(0)}, {{"dtype", std::string(NameOf(dtype))}}));
}

std::vector<OpCase> CastCases() {
  const auto to = [](const char* dtype) { return Attributes{{"dtype", std::string(dtype)}}; };
  return {
      {.name = "float32_to_float32", .inputs = {Float32({3, 5})}, .attributes = to("float32")},
      {.name = "float32_to_float64", .inputs = {Float32({3, 5})}, .attributes = to("float64")},
      {.name = "float64_to_float32", .inputs = {{DType::kFloat64, Shape{3, 5}, {}}}, .attributes = to("float32")},
      {.name = "float32_to_bfloat16", .inputs = {Float32({4, 33})}, .attributes = to("bfloat16"), .tolerance = 4e-3},
      {.name = "float32_to_float16", .inputs = {Float32({4, 33})}, .attributes = to("float16"), .tolerance = 1e-3},
      {.name = "float16_to_float32",
       .inputs = {{DType::kFloat16, Shape{7}, {}}},
       .attributes = to("float32"),
       .tolerance = 1e-3},
      {.name = "int64_to_float32",
       .inputs = {{DType::kInt64, Shape{6}, {}}},
       .attributes = to("float32"),
       .ranges = {{0, -9, 9}}},
      {.name = "float32_to_int32", .inputs = {Float32({2, 6})}, .attributes = to("int32"), .low = -9, .high = 9},
      {.name = "uint8_to_float32",
       .inputs = {{DType::kUInt8, Shape{2, 3}, {}}},
       .attributes = to("float32"),
       .ranges = {{0, 0, 255}}},
      {.name = "int8_to_float32",
       .inputs = {{DType::kInt8, Shape{2, 3}, {}}},
       .attributes = to("float32"),
       .ranges = {{0, -128, 127}}},
  };
}

}  // namespace

OpDef CastOp() {
  return {.name = "cast",
          .doc = "x -> y of the same shape: the values in another element type; to integers rounding towards zero.",
          .attributes = {{"dtype",
                          {},
                          "the new element type: float32, float64, float16, bfloat16, int64, int32, uint8, int8"}},
          .infer = InferCast,
          .reference = CastReference,
          .gradient = CastGradient,
          .repeats = AlwaysRepeats,
          .precision = Precision::kFollow,
          .cases = CastCases};
}

}  // namespace moka

// The squared norm of several tensors together, taken only where a scalar asks for it: a program that is run often
// measures now and then, and pays for nothing in between.
#include "layers/ops/maths/square_sum.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferSquareSum(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("square_sum", in, 2, kMostSquared + 1);
  CheckShape("square_sum", "is_on", in[0].shape, Shape{}, "a scalar");
  CheckFloat("square_sum", "is_on", in[0]);
  for (const TensorType& x : in.subspan(1)) CheckFloat("square_sum", "x", x);
  return {PlainType(StatisticsType(in[1].dtype), Shape{})};
}

void SquareSumReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  double sum = 0;
  if (in[0].values[0] != 0) {
    for (const RefTensor& x : in.subspan(1)) {
      for (const double value : x.values) sum += value * value;
    }
  }
  out[0].values = {sum};
}

std::vector<OpCase> SquareSumCases() {
  return {{"matrix", {Float32({}), Float32({3, 5})}, {}},
          {"scalar", {Float32({}), Float32({})}, {}},
          {"several", {Float32({}), Float32({6, 4, 3, 3}), Float32({6}), Float32({0, 3}), Float32({5, 7})}, {}},
          {"of_several_chunks", {Float32({}), Float32({40009}), Float32({17, 9}), Float32({300, 70})}, {}},
          {.name = "off",
           .inputs = {Float32({}), Float32({20011}), Float32({3, 3})},
           .attributes = {},
           .ranges = {{0, 0, 0}}}};
}

}  // namespace

OpDef SquareSumOp() {
  return {.name = "square_sum",
          .doc =
              "is_on, x.. -> y: the sum of the squares of all elements of all x as one number; 0 where the scalar "
              "is_on is 0, and no x is read then.",
          .attributes = {},
          .infer = InferSquareSum,
          .reference = SquareSumReference,
          .precision = Precision::kKeep32,
          .cases = SquareSumCases};
}

}  // namespace moka

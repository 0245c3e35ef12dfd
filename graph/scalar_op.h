// The operations that scalar expressions (graph/expression.h) are made of.
#pragma once

#include <cstdint>
#include <string_view>

namespace moka {

enum class ScalarOp : uint8_t {
  kInput,
  kConstant,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kSigmoid,
  kSign,
  kFloor,
  kErf,
  kMax,
  kMin,
  kPow,
  kLt,
  kLe,
  kGt,
  kGe,
  kEq,
  kSelect,
  kRand,
};

// Operands an op takes (0 for inputs and constants).
int ArityOf(ScalarOp op);
// The function's name in text ("exp"); empty for inputs, constants and the infix operators.
std::string_view FunctionNameOf(ScalarOp op);
// An op's value in double. Requires: op is neither kInput, kConstant nor kRand.
double ValueOf(ScalarOp op, double a, double b, double c);

}  // namespace moka

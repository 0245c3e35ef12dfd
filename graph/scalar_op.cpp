// Arity, name and value of each operation.
#include "graph/scalar_op.h"

#include <cmath>
#include <cstddef>
#include <iterator>

#include "core/error.h"

namespace moka {

namespace {

struct OpFact {
  ScalarOp op;
  int arity;
  std::string_view function;
};

constexpr OpFact kFacts[] = {
    {ScalarOp::kInput, 0, ""},
    {ScalarOp::kConstant, 0, ""},
    {ScalarOp::kAdd, 2, ""},
    {ScalarOp::kSub, 2, ""},
    {ScalarOp::kMul, 2, ""},
    {ScalarOp::kDiv, 2, ""},
    {ScalarOp::kNeg, 1, ""},
    {ScalarOp::kAbs, 1, "abs"},
    {ScalarOp::kExp, 1, "exp"},
    {ScalarOp::kLog, 1, "log"},
    {ScalarOp::kSqrt, 1, "sqrt"},
    {ScalarOp::kTanh, 1, "tanh"},
    {ScalarOp::kSigmoid, 1, "sigmoid"},
    {ScalarOp::kSign, 1, "sign"},
    {ScalarOp::kFloor, 1, "floor"},
    {ScalarOp::kErf, 1, "erf"},
    {ScalarOp::kMax, 2, "max"},
    {ScalarOp::kMin, 2, "min"},
    {ScalarOp::kPow, 2, "pow"},
    {ScalarOp::kLt, 2, "lt"},
    {ScalarOp::kLe, 2, "le"},
    {ScalarOp::kGt, 2, "gt"},
    {ScalarOp::kGe, 2, "ge"},
    {ScalarOp::kEq, 2, "eq"},
    {ScalarOp::kSelect, 3, "select"},
    {ScalarOp::kRand, 1, "rand"},
};
static_assert(
    [] {
      if (std::size(kFacts) != static_cast<size_t>(ScalarOp::kRand) + 1) return false;
      for (size_t i = 0; i < std::size(kFacts); ++i) {
        if (kFacts[i].op != static_cast<ScalarOp>(i)) return false;
      }
      return true;
    }(),
    "a row for each op, in the order of the enum, whose last op is kRand");

const OpFact& FactOf(ScalarOp op) { return kFacts[static_cast<size_t>(op)]; }

double Truth(bool condition) { return condition ? 1.0 : 0.0; }

// Larger or smaller of two numbers, NaN if either is.
double Extreme(bool a_wins, double a, double b) { return a_wins || std::isnan(a) ? a : b; }

}  // namespace

int ArityOf(ScalarOp op) { return FactOf(op).arity; }
std::string_view FunctionNameOf(ScalarOp op) { return FactOf(op).function; }

double ValueOf(ScalarOp op, double a, double b, double c) {
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSub: return a - b;
    case ScalarOp::kMul: return a * b;
    case ScalarOp::kDiv: return a / b;
    case ScalarOp::kNeg: return -a;
    case ScalarOp::kAbs: return std::fabs(a);
    case ScalarOp::kExp: return std::exp(a);
    case ScalarOp::kLog: return std::log(a);
    case ScalarOp::kSqrt: return std::sqrt(a);
    case ScalarOp::kTanh: return std::tanh(a);
    case ScalarOp::kSigmoid: return 1.0 / (1.0 + std::exp(-a));
    case ScalarOp::kSign: return Truth(a > 0) - Truth(a < 0);
    case ScalarOp::kFloor: return std::floor(a);
    case ScalarOp::kErf: return std::erf(a);
    case ScalarOp::kMax: return Extreme(a > b, a, b);
    case ScalarOp::kMin: return Extreme(a < b, a, b);
    case ScalarOp::kPow: return std::pow(a, b);
    case ScalarOp::kLt: return Truth(a < b);
    case ScalarOp::kLe: return Truth(a <= b);
    case ScalarOp::kGt: return Truth(a > b);
    case ScalarOp::kGe: return Truth(a >= b);
    case ScalarOp::kEq: return Truth(a == b);
    case ScalarOp::kSelect: return a != 0 ? b : c;
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
    case ScalarOp::kRand: break;
  }
  Require(false, "ValueOf is asked about ops with operands only");
  return 0;
}

}  // namespace moka

// Symbolic derivatives, forward through the instructions: each gets the instruction of its derivative, or none where it
// is zero for every value, so a symbolic zero never multiplies anything.
// Sub-gradients at kinks: abs takes 0 at 0; max(a,b) follows a where a > b and min(a,b) where a < b, else b (Caffe's
// rule: max(x,0) has slope 0 at 0). Comparisons, floor, sign and rand are constant between their jumps: zero.
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "graph/expression.h"
#include "graph/expression_builder.h"

namespace moka {
namespace {

constexpr int32_t kZero = -1;

class ExpressionDifferentiator {
 public:
  ExpressionDifferentiator(ExpressionBuilder& builder, int input) : b_(builder), input_(input) {}

  // The derivative of instruction i, whose operands' derivatives are da, db, dc.
  int32_t Of(int32_t i, int32_t da, int32_t db, int32_t dc) {
    const Instruction x = b_.at(i);
    switch (x.op) {
      case ScalarOp::kInput: return x.input == input_ ? b_.Constant(1) : kZero;
      case ScalarOp::kAdd: return Add(da, db);
      case ScalarOp::kSub: return Sub(da, db);
      case ScalarOp::kMul: return Add(Mul(da, x.b), Mul(db, x.a));
      case ScalarOp::kDiv: return Sub(Div(da, x.b), Div(Mul(db, i), x.b));
      case ScalarOp::kMax: return Choose(ScalarOp::kGt, x, da, db);
      case ScalarOp::kMin: return Choose(ScalarOp::kLt, x, da, db);
      case ScalarOp::kPow: return Add(da == kZero ? kZero : Mul(da, PowSlope(x)), Mul(db, PowExponentSlope(db, i)));
      case ScalarOp::kSelect: return Select(x.a, db, dc);
      default: return da == kZero ? kZero : Unary(i, x, da);
    }
  }

 private:
  int32_t Apply(ScalarOp op, int32_t a, int32_t b = -1, int32_t c = -1) { return b_.Apply(op, a, b, c); }
  int32_t Add(int32_t a, int32_t b) {
    if (a == kZero) return b;
    return b == kZero ? a : Apply(ScalarOp::kAdd, a, b);
  }
  int32_t Sub(int32_t a, int32_t b) {
    if (b == kZero) return a;
    return a == kZero ? Apply(ScalarOp::kNeg, b) : Apply(ScalarOp::kSub, a, b);
  }
  int32_t Mul(int32_t d, int32_t factor) { return d == kZero ? kZero : Apply(ScalarOp::kMul, d, factor); }
  int32_t Div(int32_t d, int32_t divisor) { return d == kZero ? kZero : Apply(ScalarOp::kDiv, d, divisor); }
  int32_t Explicit(int32_t d) { return d == kZero ? b_.Constant(0) : d; }
  int32_t Select(int32_t condition, int32_t a, int32_t b) {
    return a == kZero && b == kZero ? kZero : Apply(ScalarOp::kSelect, condition, Explicit(a), Explicit(b));
  }
  int32_t Choose(ScalarOp comparison, const Instruction& x, int32_t da, int32_t db) {
    return da == kZero && db == kZero ? kZero : Select(Apply(comparison, x.a, x.b), da, db);
  }

  // d pow(a,b) / da = b * pow(a, b-1).
  int32_t PowSlope(const Instruction& x) {
    const int32_t lower = Apply(ScalarOp::kSub, x.b, b_.Constant(1));
    return Apply(ScalarOp::kMul, x.b, Apply(ScalarOp::kPow, x.a, lower));
  }
  // d pow(a,b) / db = pow(a,b) * log(a), and 0 where a <= 0 (there pow is constant or undefined in b).
  int32_t PowExponentSlope(int32_t db, int32_t i) {
    if (db == kZero) return kZero;
    const int32_t a = b_.at(i).a;
    const int32_t slope = Apply(ScalarOp::kMul, i, Apply(ScalarOp::kLog, a));
    return Apply(ScalarOp::kSelect, Apply(ScalarOp::kGt, a, b_.Constant(0)), slope, b_.Constant(0));
  }

  int32_t Unary(int32_t i, const Instruction& x, int32_t da) {
    const int32_t one = b_.Constant(1);
    switch (x.op) {
      case ScalarOp::kNeg: return Apply(ScalarOp::kNeg, da);
      case ScalarOp::kAbs: return Mul(da, Apply(ScalarOp::kSign, x.a));
      case ScalarOp::kExp: return Mul(da, i);
      case ScalarOp::kLog: return Div(da, x.a);
      case ScalarOp::kSqrt: return Div(Mul(da, b_.Constant(0.5)), i);
      case ScalarOp::kTanh: return Mul(da, Apply(ScalarOp::kSub, one, Apply(ScalarOp::kMul, i, i)));
      case ScalarOp::kSigmoid: return Mul(da, Apply(ScalarOp::kMul, i, Apply(ScalarOp::kSub, one, i)));
      case ScalarOp::kErf: {  // 2/sqrt(pi) exp(-a^2)
        const int32_t bell = Apply(ScalarOp::kExp, Apply(ScalarOp::kNeg, Apply(ScalarOp::kMul, x.a, x.a)));
        return Mul(da, Apply(ScalarOp::kMul, b_.Constant(2 * std::numbers::inv_sqrtpi), bell));
      }
      default: return kZero;  // comparisons, floor, sign, rand
    }
  }

  ExpressionBuilder& b_;
  int input_;
};

}  // namespace

Expression Expression::Derivative(int result, int input) const {
  Require(result >= 0 && static_cast<size_t>(result) < results_.size(), "Derivative names a result there is");
  ExpressionBuilder builder;
  const std::vector<int32_t> index = builder.Append(*this);
  ExpressionDifferentiator differentiator(builder, input);
  std::vector<int32_t> slopes;  // of instructions_, as indices into builder
  const auto slope = [&](int32_t i) { return i < 0 ? kZero : slopes[static_cast<size_t>(i)]; };
  const int32_t last = results_[static_cast<size_t>(result)];
  for (int32_t i = 0; i <= last; ++i) {
    const Instruction& x = instructions_[static_cast<size_t>(i)];
    slopes.push_back(differentiator.Of(index[static_cast<size_t>(i)], slope(x.a), slope(x.b), slope(x.c)));
  }
  const int32_t found = slope(last);
  const int32_t derivative = found == kZero ? builder.Constant(0) : found;
  return builder.Finish(std::span(&derivative, 1));
}

}  // namespace moka

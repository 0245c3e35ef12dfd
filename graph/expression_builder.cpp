// The simplifier uses only identities that leave every float result as it was, except the sign of a zero: x+0, x-0,
// x*1, x/1, x*-1 = -x, x+(-y) = x-y, x-(-y) = x+y, -(-x), pow(x,0|1|2|-1), select of a constant condition or of equal
// branches, select(comparison,1,0), max(x,x), min(x,x), and the folding of constants to finite values (in double). x*0
// stays: it is NaN for an infinite x.
#include "graph/expression_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace moka {
namespace {

bool IsComparison(ScalarOp op) { return op >= ScalarOp::kLt && op <= ScalarOp::kEq; }

// x op y == y op x, bit for bit.
bool Commutes(ScalarOp op) { return op == ScalarOp::kAdd || op == ScalarOp::kMul || op == ScalarOp::kEq; }

}  // namespace

// Multiplication by 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, volume 3, 6.4) mixes the
// small numbers that indices are.
size_t ExpressionBuilder::Hash::operator()(const Instruction& instruction) const {
  uint64_t h = static_cast<uint64_t>(instruction.op);
  for (const int32_t field : {instruction.a, instruction.b, instruction.c, instruction.input}) {
    h = (h ^ static_cast<uint32_t>(field)) * 0x9E3779B97F4A7C15U;
  }
  return (h ^ std::bit_cast<uint64_t>(instruction.constant)) * 0x9E3779B97F4A7C15U >> 7U;
}

// Constants by their bits: 0 and -0 are two.
bool ExpressionBuilder::Same::operator()(const Instruction& x, const Instruction& y) const {
  return x.op == y.op && x.a == y.a && x.b == y.b && x.c == y.c && x.input == y.input &&
         std::bit_cast<uint64_t>(x.constant) == std::bit_cast<uint64_t>(y.constant);
}

// Hash consing: an instruction that is there already is given again, so that common subexpressions are one value
// without a pass of their own. Both orders of a commutative operation are one.
int32_t ExpressionBuilder::Intern(const Instruction& instruction) {
  const auto it = known_.find(instruction);
  if (it != known_.end()) return it->second;
  if (Commutes(instruction.op)) {
    Instruction swapped = instruction;
    std::swap(swapped.a, swapped.b);
    const auto other = known_.find(swapped);
    if (other != known_.end()) return other->second;
  }
  const auto index = static_cast<int32_t>(instructions_.size());
  instructions_.push_back(instruction);
  known_.emplace(instruction, index);
  return index;
}

int32_t ExpressionBuilder::Input(int input) {
  Require(input >= 0, "an expression's inputs count from 0");
  return Intern({.op = ScalarOp::kInput, .input = input});
}

int32_t ExpressionBuilder::Constant(double value) { return Intern({.op = ScalarOp::kConstant, .constant = value}); }

int32_t ExpressionBuilder::Rand(int32_t key, double stream) {
  Require(at(key).op == ScalarOp::kInput, "the key of rand is an input");
  return Intern({.op = ScalarOp::kRand, .a = key, .constant = stream});
}

bool ExpressionBuilder::IsConstant(int32_t i, double value) const {
  return at(i).op == ScalarOp::kConstant && at(i).constant == value;
}

int32_t ExpressionBuilder::SimplifyUnary(ScalarOp op, int32_t a) {
  if (op == ScalarOp::kNeg && at(a).op == ScalarOp::kNeg) return at(a).a;
  if (op == ScalarOp::kAbs && (at(a).op == ScalarOp::kAbs || at(a).op == ScalarOp::kExp)) return a;
  return -1;
}

int32_t ExpressionBuilder::SimplifySum(ScalarOp op, int32_t a, int32_t b) {
  if (IsConstant(b, 0)) return a;
  if (op == ScalarOp::kAdd && IsConstant(a, 0)) return b;
  const ScalarOp opposite = op == ScalarOp::kAdd ? ScalarOp::kSub : ScalarOp::kAdd;
  if (at(b).op == ScalarOp::kNeg) return Apply(opposite, a, at(b).a);
  return -1;
}

int32_t ExpressionBuilder::SimplifyBinary(ScalarOp op, int32_t a, int32_t b) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub: return SimplifySum(op, a, b);
    case ScalarOp::kMul:
      if (IsConstant(b, 1)) return a;
      if (IsConstant(a, 1)) return b;
      if (IsConstant(b, -1)) return Apply(ScalarOp::kNeg, a);
      if (IsConstant(a, -1)) return Apply(ScalarOp::kNeg, b);
      return -1;
    case ScalarOp::kDiv:
      if (IsConstant(b, 1)) return a;
      return IsConstant(b, -1) ? Apply(ScalarOp::kNeg, a) : -1;
    case ScalarOp::kMax:
    case ScalarOp::kMin: return a == b ? a : -1;
    case ScalarOp::kPow:
      if (IsConstant(b, 0)) return Constant(1);
      if (IsConstant(b, 1)) return a;
      if (IsConstant(b, 2)) return Apply(ScalarOp::kMul, a, a);
      return IsConstant(b, -1) ? Apply(ScalarOp::kDiv, Constant(1), a) : -1;
    default: return -1;
  }
}

int32_t ExpressionBuilder::SimplifySelect(int32_t condition, int32_t a, int32_t b) {
  if (at(condition).op == ScalarOp::kConstant) return at(condition).constant != 0 ? a : b;
  if (a == b) return a;
  if (IsComparison(at(condition).op) && IsConstant(a, 1) && IsConstant(b, 0)) return condition;
  return -1;
}

// Constants are folded first, as an identity may then apply to what is left.
int32_t ExpressionBuilder::Apply(ScalarOp op, int32_t a, int32_t b, int32_t c) {
  const int arity = ArityOf(op);
  const auto constant = [&](int32_t i) { return at(i).op == ScalarOp::kConstant; };
  if (constant(a) && (arity < 2 || constant(b)) && (arity < 3 || constant(c))) {
    const double value = ValueOf(op, at(a).constant, arity > 1 ? at(b).constant : 0, arity > 2 ? at(c).constant : 0);
    // An overflow or a NaN is left for the run to show.
    if (std::isfinite(value) || op == ScalarOp::kNeg) return Constant(value);
  }
  int32_t simple = -1;
  if (arity == 1) simple = SimplifyUnary(op, a);
  if (arity == 2) simple = SimplifyBinary(op, a, b);
  if (arity == 3) simple = SimplifySelect(a, b, c);
  return simple >= 0 ? simple : Intern({.op = op, .a = a, .b = b, .c = c});
}

// Every instruction is applied anew, so that it is simplified with what its inputs have become.
std::vector<int32_t> ExpressionBuilder::Append(const Expression& expression, std::span<const int32_t> inputs) {
  std::vector<int32_t> index;
  index.reserve(expression.instructions().size());
  const auto moved = [&](int32_t i) { return i < 0 ? -1 : index[static_cast<size_t>(i)]; };
  for (const Instruction& instruction : expression.instructions()) {
    const auto input = static_cast<size_t>(std::max(instruction.input, 0));
    switch (instruction.op) {
      case ScalarOp::kInput:
        index.push_back(input < inputs.size() && inputs[input] >= 0 ? inputs[input] : Input(instruction.input));
        break;
      case ScalarOp::kConstant: index.push_back(Constant(instruction.constant)); break;
      case ScalarOp::kRand: index.push_back(Rand(moved(instruction.a), instruction.constant)); break;
      default: index.push_back(Apply(instruction.op, moved(instruction.a), moved(instruction.b), moved(instruction.c)));
    }
  }
  return index;
}

// Only what the results need is kept, operands before their users: a depth-first walk with a stack of its own, since
// expressions of an optimiser may be deeper than a thread's stack likes.
Expression ExpressionBuilder::Finish(std::span<const int32_t> results) const {
  Expression out;
  std::vector<int32_t> place(instructions_.size(), -1);
  const auto placed = [&](int32_t i) { return i < 0 ? -1 : place[static_cast<size_t>(i)]; };
  std::vector<int32_t> stack;
  for (const int32_t result : results) {
    stack.push_back(result);
    while (!stack.empty()) {
      const int32_t i = stack.back();
      const Instruction& from = at(i);
      int32_t missing = -1;
      for (const int32_t operand : {from.c, from.b, from.a}) {
        if (operand >= 0 && placed(operand) < 0) missing = operand;
      }
      if (missing >= 0 && placed(i) < 0) {
        stack.push_back(missing);
        continue;
      }
      stack.pop_back();
      if (placed(i) >= 0) continue;
      place[static_cast<size_t>(i)] = static_cast<int32_t>(out.instructions_.size());
      Instruction to = from;
      to.a = placed(from.a);
      to.b = placed(from.b);
      to.c = placed(from.c);
      out.instructions_.push_back(to);
    }
    out.results_.push_back(placed(result));
  }
  return out;
}

}  // namespace moka

// Construction and evaluation of expressions. The simplifier uses only identities that leave every float result as it
// was, except the sign of a zero: x+0, x-0, x*1, x/1, x*-1 = -x, x+(-y) = x-y, x-(-y) = x+y, -(-x), pow(x,0|1|2|-1),
// select of a constant condition or of equal branches, select(comparison,1,0), max(x,x), min(x,x), and the folding of
// constants to finite values (in double). x*0 stays: it is NaN for an infinite x.
#include "graph/expression.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/expression_builder.h"

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

const OpFact& FactOf(ScalarOp op) { return kFacts[static_cast<size_t>(op)]; }

bool IsComparison(ScalarOp op) { return op >= ScalarOp::kLt && op <= ScalarOp::kEq; }

// x op y == y op x, bit for bit.
bool Commutes(ScalarOp op) { return op == ScalarOp::kAdd || op == ScalarOp::kMul || op == ScalarOp::kEq; }

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

int Expression::input_count() const {
  int count = 0;
  for (const Instruction& instruction : instructions_) count = std::max(count, instruction.input + 1);
  return count;
}

bool Expression::UsesInput(int input) const {
  return std::any_of(instructions_.begin(), instructions_.end(),
                     [&](const Instruction& instruction) { return instruction.input == input; });
}

bool Expression::IsRandom() const {
  return std::any_of(instructions_.begin(), instructions_.end(),
                     [](const Instruction& instruction) { return instruction.op == ScalarOp::kRand; });
}

Expression Expression::Substitute(std::span<const Expression> replacements) const {
  Require(static_cast<int>(replacements.size()) >= input_count(), "Substitute has an expression for every input");
  ExpressionBuilder builder;
  std::vector<int32_t> inputs(replacements.size(), -1);
  for (size_t i = 0; i < replacements.size(); ++i) {
    if (!UsesInput(static_cast<int>(i))) continue;
    Require(replacements[i].results().size() == 1, "Substitute's expressions have one result each");
    inputs[i] = builder.Append(replacements[i])[static_cast<size_t>(replacements[i].results()[0])];
  }
  const std::vector<int32_t> index = builder.Append(*this, inputs);
  std::vector<int32_t> results;
  for (const int32_t result : results_) results.push_back(index[static_cast<size_t>(result)]);
  return builder.Finish(results);
}

Expression Expression::Renumber(std::span<const int> map) const {
  Require(static_cast<int>(map.size()) >= input_count(), "Renumber has a number for every input");
  ExpressionBuilder builder;
  std::vector<int32_t> inputs(map.size(), -1);
  for (size_t i = 0; i < map.size(); ++i) {
    if (UsesInput(static_cast<int>(i))) inputs[i] = builder.Input(map[i]);
  }
  const std::vector<int32_t> index = builder.Append(*this, inputs);
  std::vector<int32_t> results;
  for (const int32_t result : results_) results.push_back(index[static_cast<size_t>(result)]);
  return builder.Finish(results);
}

Expression Expression::Select(std::span<const int> results) const {
  ExpressionBuilder builder;
  const std::vector<int32_t> index = builder.Append(*this);
  std::vector<int32_t> kept;
  for (const int result : results) {
    Require(result >= 0 && static_cast<size_t>(result) < results_.size(), "Select names results there are");
    kept.push_back(index[static_cast<size_t>(results_[static_cast<size_t>(result)])]);
  }
  return builder.Finish(kept);
}

Expression Expression::Join(std::span<const Expression> parts) {
  ExpressionBuilder builder;
  std::vector<int32_t> results;
  for (const Expression& part : parts) {
    const std::vector<int32_t> index = builder.Append(part);
    for (const int32_t result : part.results_) results.push_back(index[static_cast<size_t>(result)]);
  }
  return builder.Finish(results);
}

void Expression::Evaluate(std::span<const double> inputs, uint64_t index, std::span<double> out) const {
  Require(static_cast<int>(inputs.size()) >= input_count(), "Evaluate has a value for every input");
  Require(out.size() == results_.size(), "Evaluate has room for every result");
  thread_local std::vector<double> values;
  values.clear();
  const auto value = [&](int32_t i) { return i < 0 ? 0.0 : values[static_cast<size_t>(i)]; };
  for (const Instruction& instruction : instructions_) {
    switch (instruction.op) {
      case ScalarOp::kInput: values.push_back(inputs[static_cast<size_t>(instruction.input)]); break;
      case ScalarOp::kConstant: values.push_back(instruction.constant); break;
      case ScalarOp::kRand: {
        const auto seed = static_cast<uint64_t>(static_cast<int64_t>(value(instruction.a)));
        values.push_back(UnitFloat(RandomWord(seed, static_cast<uint64_t>(instruction.constant), index)));
        break;
      }
      default:
        values.push_back(ValueOf(instruction.op, value(instruction.a), value(instruction.b), value(instruction.c)));
    }
  }
  for (size_t r = 0; r < out.size(); ++r) out[r] = value(results_[r]);
}

}  // namespace moka

// Operands are written before what reads them, by recursion; each instruction once.
#include "tools/exchange/ops/expression_writer.h"

#include "core/error.h"
#include "graph/op.h"
#include "graph/scalar_op.h"

namespace moka {
namespace {

bool IsComparison(ScalarOp op) {
  return op == ScalarOp::kLt || op == ScalarOp::kLe || op == ScalarOp::kGt || op == ScalarOp::kGe ||
         op == ScalarOp::kEq;
}

// The ONNX op of the same meaning; empty where it takes more than one.
std::string TypeOf(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd: return "Add";
    case ScalarOp::kSub: return "Sub";
    case ScalarOp::kMul: return "Mul";
    case ScalarOp::kDiv: return "Div";
    case ScalarOp::kNeg: return "Neg";
    case ScalarOp::kAbs: return "Abs";
    case ScalarOp::kExp: return "Exp";
    case ScalarOp::kLog: return "Log";
    case ScalarOp::kSqrt: return "Sqrt";
    case ScalarOp::kTanh: return "Tanh";
    case ScalarOp::kSigmoid: return "Sigmoid";
    case ScalarOp::kSign: return "Sign";
    case ScalarOp::kFloor: return "Floor";
    case ScalarOp::kErf: return "Erf";
    case ScalarOp::kMax: return "Max";
    case ScalarOp::kMin: return "Min";
    case ScalarOp::kPow: return "Pow";
    case ScalarOp::kLt: return "Less";
    case ScalarOp::kLe: return "LessOrEqual";
    case ScalarOp::kGt: return "Greater";
    case ScalarOp::kGe: return "GreaterOrEqual";
    case ScalarOp::kEq: return "Equal";
    case ScalarOp::kSelect: return "Where";
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
    case ScalarOp::kRand: break;
  }
  return {};
}

Attributes CastTo(int type) { return {{"to", int64_t{type}}}; }

}  // namespace

ExpressionWriter::Part ExpressionWriter::PartOf(int32_t i) {
  const Instruction& instruction = At(i);
  if (instruction.op == ScalarOp::kRand) n_.Refuse("numbers that are drawn in each run");
  const std::string type = TypeOf(instruction.op);
  if (instruction.op == ScalarOp::kSelect)
    return {type, {Condition(instruction.a), Value(instruction.b), Value(instruction.c)}};
  if (ArityOf(instruction.op) == 1) return {type, {Value(instruction.a)}};
  const std::string a = Value(instruction.a);
  const std::string b = Value(instruction.b);
  const bool is_or_equal = instruction.op == ScalarOp::kLe || instruction.op == ScalarOp::kGe;
  if (!is_or_equal || n_.opset() >= 12) return {type, {a, b}};
  const char* strict = instruction.op == ScalarOp::kLe ? "Less" : "Greater";
  return {"Or", {n_.Add(strict, {a, b}), n_.Add("Equal", {a, b})}};
}

std::string ExpressionWriter::Value(int32_t i) {
  const auto found = values_.find(i);
  if (found != values_.end()) return found->second;
  const Instruction& instruction = At(i);
  std::string name;
  if (instruction.op == ScalarOp::kInput) {
    name = n_.In(instruction.input);
  } else if (instruction.op == ScalarOp::kConstant) {
    name = n_.onnx().Scalar(instruction.constant);
  } else if (IsComparison(instruction.op)) {
    name = n_.Add("Cast", {Condition(i)}, CastTo(onnx::TensorProto::FLOAT));
  } else {
    const Part part = PartOf(i);
    name = n_.Add(part.type, part.inputs);
  }
  return values_[i] = std::move(name);
}

std::string ExpressionWriter::Condition(int32_t i) {
  const auto found = conditions_.find(i);
  if (found != conditions_.end()) return found->second;
  std::string name;
  if (IsComparison(At(i).op)) {
    const Part part = PartOf(i);
    name = n_.Add(part.type, part.inputs);
  } else {
    name = n_.Add("Cast", {Value(i)}, CastTo(onnx::TensorProto::BOOL));
  }
  return conditions_[i] = std::move(name);
}

void ExpressionWriter::Give(int32_t i, int output) {
  const ScalarOp op = At(i).op;
  const bool is_there = op == ScalarOp::kInput || op == ScalarOp::kConstant || values_.contains(i);
  if (is_there) return n_.Give("Identity", {Value(i)}, {}, output);
  if (IsComparison(op)) return n_.Give("Cast", {Condition(i)}, CastTo(onnx::TensorProto::FLOAT), output);
  const Part part = PartOf(i);
  n_.Give(part.type, part.inputs, {}, output);
  values_[i] = n_.onnx().NameOf(n_.node().outputs[static_cast<size_t>(output)]);
}

}  // namespace moka

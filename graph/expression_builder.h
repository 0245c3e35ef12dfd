// Builds expressions instruction by instruction: folds constants, applies the identities that hold for floating-point
// numbers (expression_builder.cpp lists them) and returns an earlier instruction where one is equal (hash-consing).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/expression.h"

namespace moka {

class ExpressionBuilder {
 public:
  int32_t Input(int input);
  int32_t Constant(double value);
  // Requires: key is an input.
  int32_t Rand(int32_t key, double stream);
  // Any other op; simplified.
  int32_t Apply(ScalarOp op, int32_t a, int32_t b = -1, int32_t c = -1);
  // Appends all instructions of an expression, input i becoming inputs[i] (itself where that is -1 or out of range);
  // gives the new index of each.
  std::vector<int32_t> Append(const Expression& expression, std::span<const int32_t> inputs = {});

  const Instruction& at(int32_t i) const { return instructions_[static_cast<size_t>(i)]; }
  // Keeps what the results need, in depth-first order, operands first: equal DAGs give equal expressions.
  Expression Finish(std::span<const int32_t> results) const;

 private:
  struct Hash {
    size_t operator()(const Instruction& instruction) const;
  };
  struct Same {
    bool operator()(const Instruction& x, const Instruction& y) const;
  };

  bool IsConstant(int32_t i, double value) const;
  // An index instead of the op applied, or -1.
  int32_t SimplifyUnary(ScalarOp op, int32_t a);
  int32_t SimplifySum(ScalarOp op, int32_t a, int32_t b);
  int32_t SimplifyBinary(ScalarOp op, int32_t a, int32_t b);
  int32_t SimplifySelect(int32_t condition, int32_t a, int32_t b);
  int32_t Intern(const Instruction& instruction);

  std::vector<Instruction> instructions_;
  std::unordered_map<Instruction, int32_t, Hash, Same> known_;
};

}  // namespace moka

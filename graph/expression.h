// Scalar expressions: the language of the pointwise op. Text is infix over inputs x0, x1, ...; constants; + - * /;
// unary -; functions abs, exp, log, sqrt, tanh, sigmoid, sign, floor, erf, max(a,b), min(a,b), pow(a,b), fma is not
// there (contraction is the compiler's); comparisons lt(a,b), le(a,b), gt(a,b), ge(a,b), eq(a,b) giving 0 or 1;
// select(c,a,b) = c != 0 ? a : b;
// rand(s, k): uniform in [0,1) from the counter-based generator, keyed by the value of scalar input s (the step's key,
// an int64 input), the stream number k (integer constant) and the element's logical index, so it is the same in any
// layout, thread split or recomputation. max and min are NaN if either operand is. Values are immutable and hash-consed
// inside one Expression (a DAG in SSA). A text may first name parts: "t0=exp(x0);t0/(1+t0)".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/scalar_op.h"

namespace moka {

// One instruction; operands are indices of earlier instructions.
struct Instruction {
  ScalarOp op = ScalarOp::kConstant;
  int32_t a = -1;
  int32_t b = -1;
  int32_t c = -1;
  int32_t input = -1;   // kInput
  double constant = 0;  // kConstant; kRand: the stream number
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

// Several results over the same inputs, sharing common sub-expressions.
class Expression {
 public:
  // Errors: kInternal with the text and position (expressions are written by Moka's own layers, not by users).
  static Expression Parse(const std::vector<std::string>& texts);
  static Expression Parse(std::string_view text) { return Parse(std::vector<std::string>{std::string(text)}); }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<int32_t>& results() const { return results_; }
  // One past the largest input used.
  int input_count() const;
  bool UsesInput(int input) const;
  // Whether any instruction is rand.
  bool IsRandom() const;

  // Canonical texts, one per result; Parse(Texts()) gives an equal expression.
  std::vector<std::string> Texts() const;
  // d(result r)/d(input i), simplified. Sub-gradients: relu-like kinks take 0 at the kink (max(x,0)' is x>0).
  Expression Derivative(int result, int input) const;
  // Replaces each input i by replacements[i] (an expression over the new inputs with one result).
  Expression Substitute(std::span<const Expression> replacements) const;
  // Renumbers inputs: input i becomes map[i].
  Expression Renumber(std::span<const int> map) const;
  // Keeps only some results; joins the results of several expressions over the same inputs.
  Expression Select(std::span<const int> results) const;
  static Expression Join(std::span<const Expression> parts);

  // Computes the results in double; index is the element's logical index (for rand). out has one value per result.
  void Evaluate(std::span<const double> inputs, uint64_t index, std::span<double> out) const;

  friend bool operator==(const Expression&, const Expression&) = default;

 private:
  friend class ExpressionBuilder;
  std::vector<Instruction> instructions_;
  std::vector<int32_t> results_;
};

}  // namespace moka

// Formulas of the pointwise op as typed terms: operators and functions make the tree of an expression
// (graph/expression.h) which is that of the C++ expression, so that floating-point numbers meet in the order that the
// source shows. A term in which a part is used again is a graph: the part is computed once.
//
//   const Term x = l.Bottom(0);
//   l.SetTop(0, Select(x > 0, x, slope * x));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace moka {

class GraphBuilder;

class Term {
 public:
  // With all the digits of the double. An integer is a number, too: a value of the graph comes in by Of.
  Term(double constant);  // NOLINT(google-explicit-constructor): formulas mix numbers and values
  // Input i of the op.
  static Term Input(size_t i);
  // A value of the graph (a ValueId); the node made of the term has it among its inputs.
  static Term Of(int32_t value);

  // The text over inputs x0, x1, ...; value inputs[i] is xi. Requires: every value is among them.
  std::string Text(std::span<const int32_t> inputs) const;
  // The text of a term without values.
  std::string text() const { return Text({}); }
  // Inputs of a node of the term: `first`, then its other values in the order of a walk from the left.
  std::vector<int32_t> Values(std::vector<int32_t> first = {}) const;

  friend Term operator-(const Term& a);
  friend Term operator+(const Term& a, const Term& b) { return {"+", Bond::kSum, {a.part_, b.part_}}; }
  friend Term operator-(const Term& a, const Term& b) { return {"-", Bond::kSum, {a.part_, b.part_}}; }
  friend Term operator*(const Term& a, const Term& b) { return {"*", Bond::kProduct, {a.part_, b.part_}}; }
  friend Term operator/(const Term& a, const Term& b) { return {"/", Bond::kProduct, {a.part_, b.part_}}; }
  // 1 where the comparison holds, else 0.
  friend Term operator<(const Term& a, const Term& b) { return Call("lt", a, b); }
  friend Term operator<=(const Term& a, const Term& b) { return Call("le", a, b); }
  friend Term operator>(const Term& a, const Term& b) { return Call("gt", a, b); }
  friend Term operator>=(const Term& a, const Term& b) { return Call("ge", a, b); }
  friend Term operator==(const Term& a, const Term& b) { return Call("eq", a, b); }

  friend Term Abs(const Term& a) { return Call("abs", a); }
  friend Term Sign(const Term& a) { return Call("sign", a); }
  friend Term Erf(const Term& a) { return Call("erf", a); }
  friend Term Floor(const Term& a) { return Call("floor", a); }
  friend Term Sqrt(const Term& a) { return Call("sqrt", a); }
  friend Term Exp(const Term& a) { return Call("exp", a); }
  friend Term Log(const Term& a) { return Call("log", a); }
  friend Term Tanh(const Term& a) { return Call("tanh", a); }
  friend Term Sigmoid(const Term& a) { return Call("sigmoid", a); }
  friend Term Pow(const Term& a, const Term& b) { return Call("pow", a, b); }
  // NaN if either is.
  friend Term Max(const Term& a, const Term& b) { return Call("max", a, b); }
  friend Term Min(const Term& a, const Term& b) { return Call("min", a, b); }
  // a where the condition is not 0, else b.
  friend Term Select(const Term& condition, const Term& a, const Term& b) { return Call("select", condition, a, b); }
  // Uniform in [0,1), drawn for each element. Requires: the key is an input, the stream an integer constant.
  friend Term Rand(const Term& key, const Term& stream) { return Call("rand", key, stream); }

  // A part of a term, shared by the terms that have it (graph/term.cpp).
  struct Part;

 private:
  // The bond that holds the parts of a text together, the weakest first.
  enum class Bond : uint8_t { kSum, kProduct, kSign, kWhole };
  friend class TermWriter;
  using Parts = std::vector<std::shared_ptr<const Part>>;
  Term(std::string name, Bond bond, Parts operands);
  template <class... Operands>
  static Term Call(const char* function, const Operands&... operands) {
    return {function, Bond::kWhole, {operands.part_...}};
  }

  std::shared_ptr<const Part> part_;
};

// The node of a term, with the inputs Term::Values(first).
int32_t Computed(const GraphBuilder& b, const Term& term, std::vector<int32_t> first = {});
// The term summed over axes, which stay as dimensions of 1.
int32_t Summed(const GraphBuilder& b, const Term& term, std::vector<int64_t> axes, std::vector<int32_t> first = {});

// A number by the fewest digits that give its float: 0.1 of a net is 0.1, not the double next to the float.
Term Decimal(double constant);

// Whether a float is a number (neither infinite nor NaN): 1 or 0.
Term IsFinite(const Term& a);
Term Square(const Term& a);

}  // namespace moka

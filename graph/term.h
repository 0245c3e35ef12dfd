// Formulas of the pointwise op as typed terms: operators and functions write the text of an expression
// (graph/expression.h) whose tree is that of the C++ expression, so that floating-point numbers meet in the order that
// the source shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace moka {

class Term {
 public:
  Term(double constant);  // NOLINT(google-explicit-constructor): formulas mix numbers and values
  // Input i of the op.
  static Term Input(size_t i);

  const std::string& text() const { return text_; }

  friend Term operator-(const Term& a);
  friend Term operator+(const Term& a, const Term& b) { return Join(a, '+', b, Bond::kSum); }
  friend Term operator-(const Term& a, const Term& b) { return Join(a, '-', b, Bond::kSum); }
  friend Term operator*(const Term& a, const Term& b) { return Join(a, '*', b, Bond::kProduct); }
  friend Term operator/(const Term& a, const Term& b) { return Join(a, '/', b, Bond::kProduct); }
  // 1 where the comparison holds, else 0.
  friend Term operator<(const Term& a, const Term& b) { return Call("lt", a, b); }
  friend Term operator<=(const Term& a, const Term& b) { return Call("le", a, b); }
  friend Term operator>(const Term& a, const Term& b) { return Call("gt", a, b); }
  friend Term operator>=(const Term& a, const Term& b) { return Call("ge", a, b); }
  friend Term operator==(const Term& a, const Term& b) { return Call("eq", a, b); }

  friend Term Abs(const Term& a) { return Call("abs", a); }
  friend Term Sign(const Term& a) { return Call("sign", a); }
  friend Term Sqrt(const Term& a) { return Call("sqrt", a); }
  friend Term Max(const Term& a, const Term& b) { return Call("max", a, b); }
  friend Term Min(const Term& a, const Term& b) { return Call("min", a, b); }
  // a where the condition is not 0, else b.
  friend Term Select(const Term& condition, const Term& a, const Term& b) { return Call("select", condition, a, b); }

 private:
  // What holds the parts of a text together, the weakest first.
  enum class Bond : uint8_t { kSum, kProduct, kSign, kWhole };
  Term(std::string text, Bond bond) : text_(std::move(text)), bond_(bond) {}
  static Term Join(const Term& a, char sign, const Term& b, Bond bond);
  template <class... Operands>
  static Term Call(const char* function, const Operands&... operands) {
    std::string text = function;
    char before = '(';
    ((text += before, text += operands.text_, before = ','), ...);
    return {text + ')', Bond::kWhole};
  }
  // In brackets unless it holds together at least as strongly.
  std::string Within(Bond bond) const;

  std::string text_;
  Bond bond_ = Bond::kWhole;
};

// Whether a float is a number (neither infinite nor NaN): 1 or 0.
Term IsFinite(const Term& a);
Term Square(const Term& a);

}  // namespace moka

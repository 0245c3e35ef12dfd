// A term's text has the tree that the source has, and keeps the digits of constants.
#include "graph/term.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "graph/expression.h"

namespace moka {
namespace {

double ValueOfTerm(const Term& term, std::array<double, 3> x) {
  double value = 0;
  Expression::Parse(term.text()).Evaluate(x, 0, {&value, 1});
  return value;
}

// Floating-point sums are not associative: the text's tree is the source's.
TEST(TermTest, TextsHaveTheTreeOfTheSource) {
  const Term a = Term::Input(0);
  const Term b = Term::Input(1);
  const Term c = Term::Input(2);
  EXPECT_EQ((a + b + c).text(), "x0+x1+x2");
  EXPECT_EQ((a + (b + c)).text(), "x0+(x1+x2)");
  EXPECT_EQ((a - (b - c)).text(), "x0-(x1-x2)");
  EXPECT_EQ((a * b / c).text(), "x0*x1/x2");
  EXPECT_EQ((a * (b / c)).text(), "x0*(x1/x2)");
  EXPECT_EQ((a - b * c).text(), "x0-x1*x2");
  EXPECT_EQ(((a - b) * c).text(), "(x0-x1)*x2");
  EXPECT_EQ((-(a + b) * c).text(), "(-(x0+x1))*x2");
  EXPECT_EQ((a - -0.5).text(), "x0-(-0.5)");
  EXPECT_EQ(Select(a > 0, Sqrt(b) + 1e-8, Max(a, -1)).text(), "select(gt(x0,0),sqrt(x1)+1e-08,max(x0,-1))");
}

TEST(TermTest, ConstantsKeepTheirDigits) {
  for (const double value : {0.1, 1.0 / 3, 3e38, -1e-30, 16777217.0}) {
    EXPECT_EQ(ValueOfTerm(Term::Input(0) * 0 + value, {1, 0, 0}), value);
  }
}

// A field of 0.1 is the float next to it; its formula says 0.1.
TEST(TermTest, DecimalsAreWrittenAsInTheNet) {
  const double tenth = 0.1F;
  EXPECT_EQ((Term::Input(0) * Decimal(tenth)).text(), "x0*0.1");
  EXPECT_EQ((Term::Input(0) - Decimal(-tenth)).text(), "x0-(-0.1)");
  EXPECT_EQ(Decimal(1.0 / 3).text(), Term(1.0 / 3).text());
}

TEST(TermTest, ValuesAreInputsInTheOrderOfTheText) {
  const Term a = Term::Of(7);
  const Term b = Term::Of(3);
  const Term formula = Select(b > 0, a * b, a);
  EXPECT_EQ(formula.Values(), (std::vector<int32_t>{3, 7}));
  EXPECT_EQ(formula.Values({7, 9}), (std::vector<int32_t>{7, 9, 3}));
  const std::array<int32_t, 2> inputs{7, 3};
  EXPECT_EQ(formula.Text(inputs), "select(gt(x1,0),x0*x1,x0)");
  EXPECT_THROW(formula.text(), Error);
}

// As a tree it would have 2^200 parts.
TEST(TermTest, PartsUsedAgainAreComputedOnce) {
  Term sum = Term::Input(0);
  for (int i = 0; i < 200; ++i) sum = sum + sum / 2;
  const std::string text = sum.text();
  EXPECT_TRUE(text.starts_with("t0=x0+x0/2;t1=t0+t0/2;")) << text.substr(0, 60);
  EXPECT_EQ(Expression::Parse(text).instructions().size(), 402U);
  EXPECT_DOUBLE_EQ(ValueOfTerm(sum, {2, 0, 0}), 2 * std::pow(1.5, 200));
}

TEST(TermTest, OnlyNumbersAreFinite) {
  const Term finite = IsFinite(Term::Input(0));
  EXPECT_EQ(ValueOfTerm(finite, {-1e38, 0, 0}), 1);
  EXPECT_EQ(ValueOfTerm(finite, {HUGE_VAL, 0, 0}), 0);
  EXPECT_EQ(ValueOfTerm(finite, {-HUGE_VAL, 0, 0}), 0);
  EXPECT_EQ(ValueOfTerm(finite, {NAN, 0, 0}), 0);
}

}  // namespace
}  // namespace moka

#include "graph/term.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

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

TEST(TermTest, OnlyNumbersAreFinite) {
  const Term finite = IsFinite(Term::Input(0));
  EXPECT_EQ(ValueOfTerm(finite, {-1e38, 0, 0}), 1);
  EXPECT_EQ(ValueOfTerm(finite, {HUGE_VAL, 0, 0}), 0);
  EXPECT_EQ(ValueOfTerm(finite, {-HUGE_VAL, 0, 0}), 0);
  EXPECT_EQ(ValueOfTerm(finite, {NAN, 0, 0}), 0);
}

}  // namespace
}  // namespace moka

// The expression language: values, derivatives against differences, simplification, printing.
#include "graph/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

double ValueAt(const Expression& expression, std::vector<double> inputs, uint64_t index = 0) {
  double value = 0;
  expression.Evaluate(inputs, index, {&value, 1});
  return value;
}
double ValueAt(std::string_view text, std::vector<double> inputs) { return ValueAt(Expression::Parse(text), inputs); }
std::string Canonical(std::string_view text) { return Expression::Parse(text).Texts().front(); }
std::string Slope(std::string_view text, int input = 0) {
  return Expression::Parse(text).Derivative(0, input).Texts().front();
}

TEST(Expression, EvaluatesEveryOperator) {
  EXPECT_EQ(ValueAt("1+2*3-8/4", {}), 5);
  EXPECT_EQ(ValueAt("x0-x1-x2", {1, 2, 3}), -4);
  EXPECT_EQ(ValueAt("x0/x1/x2", {12, 2, 3}), 2);
  EXPECT_EQ(ValueAt("-x0*x1", {2, 3}), -6);
  EXPECT_EQ(ValueAt("--x0", {2}), 2);
  EXPECT_EQ(ValueAt("(x0+x1)*x1", {1, 2}), 6);
  EXPECT_EQ(ValueAt(" 1.5e1 + .5 ", {}), 15.5);
  EXPECT_EQ(ValueAt("abs(x0)+sign(x0)+floor(x0)", {-1.5}), 1.5 - 1 - 2);
  EXPECT_DOUBLE_EQ(ValueAt("exp(x0)*log(x1)", {1, 2}), std::exp(1.0) * std::log(2.0));
  EXPECT_DOUBLE_EQ(ValueAt("sqrt(x0)+tanh(x0)+erf(x0)", {0.3}), std::sqrt(0.3) + std::tanh(0.3) + std::erf(0.3));
  EXPECT_DOUBLE_EQ(ValueAt("sigmoid(x0)", {-2}), 1 / (1 + std::exp(2.0)));
  EXPECT_EQ(ValueAt("max(x0,x1)*min(x0,x1)", {2, 5}), 10);
  EXPECT_DOUBLE_EQ(ValueAt("pow(x0,x1)", {2, 0.5}), std::sqrt(2.0));
  EXPECT_EQ(ValueAt("lt(x0,x1)+10*le(x0,x1)+100*gt(x0,x1)+1000*ge(x0,x1)+10000*eq(x0,x1)", {1, 1}), 11010);
  EXPECT_EQ(ValueAt("lt(x0,x1)+10*le(x0,x1)+100*gt(x0,x1)+1000*ge(x0,x1)+10000*eq(x0,x1)", {1, 2}), 11);
  EXPECT_EQ(ValueAt("select(x0,x1,x2)", {0, 5, 7}), 7);
  EXPECT_EQ(ValueAt("select(x0,x1,x2)", {-0.1, 5, 7}), 5);
}

TEST(Expression, MaxAndMinKeepNaN) {
  const double nan = std::nan("");
  for (const char* text : {"max(x0,x1)", "min(x0,x1)"}) {
    EXPECT_TRUE(std::isnan(ValueAt(text, {nan, 1}))) << text;
    EXPECT_TRUE(std::isnan(ValueAt(text, {1, nan}))) << text;
  }
}

TEST(Expression, RandIsAFunctionOfKeyStreamAndIndex) {
  const Expression e = Expression::Parse("rand(x1,7)+x0");
  EXPECT_TRUE(e.IsRandom());
  EXPECT_FALSE(Expression::Parse("x0").IsRandom());
  for (const uint64_t i : {0U, 1U, 5U, 1000003U}) {
    EXPECT_EQ(ValueAt(e, {0, 123}, i), static_cast<double>(UnitFloat(RandomWord(123, 7, i))));
  }
  EXPECT_NE(ValueAt(e, {0, 123}, 4), ValueAt(e, {0, 124}, 4));
}

TEST(Expression, SharesCommonParts) {
  const Expression e = Expression::Parse(std::vector<std::string>{"exp(x0*x1)+1", "exp(x1*x0)*2"});
  EXPECT_EQ(e.instructions().size(), 8U);  // x0 x1 * exp 1 + 2 *
  EXPECT_THAT(e.Texts(), ElementsAre("exp(x0*x1)+1", "exp(x0*x1)*2"));
}

TEST(Expression, SimplifiesWithoutChangingResults) {
  EXPECT_EQ(Canonical("x0*1"), "x0");
  EXPECT_EQ(Canonical("1*x0/1"), "x0");
  EXPECT_EQ(Canonical("0+x0-0"), "x0");
  EXPECT_EQ(Canonical("-(-x0)"), "x0");
  EXPECT_EQ(Canonical("x0+-x1"), "x0-x1");
  EXPECT_EQ(Canonical("x0--x1"), "x0+x1");
  EXPECT_EQ(Canonical("x0*-1"), "-x0");
  EXPECT_EQ(Canonical("pow(x0,2)"), "x0*x0");
  EXPECT_EQ(Canonical("pow(x0,1)"), "x0");
  EXPECT_EQ(Canonical("pow(x0,0)"), "1");
  EXPECT_EQ(Canonical("select(gt(2,1),x0,x1)"), "x0");
  EXPECT_EQ(Canonical("select(x0,x1,x1)"), "x1");
  EXPECT_EQ(Canonical("select(gt(x0,0),1,0)"), "gt(x0,0)");
  EXPECT_EQ(Canonical("select(x0,1,0)"), "select(x0,1,0)");
  EXPECT_EQ(Canonical("2*3+exp(0)"), "7");
  // Not identities: NaN and infinity times 0, and the order of roundings.
  EXPECT_EQ(Canonical("0*x0"), "0*x0");
  EXPECT_EQ(Canonical("x0-x0"), "x0-x0");
  EXPECT_EQ(Canonical("x0+(x1+x2)"), "x0+(x1+x2)");
  EXPECT_EQ(Canonical("x0+x1+x2"), "x0+x1+x2");
  EXPECT_EQ(Canonical("x0-(x1-x2)"), "x0-(x1-x2)");
  EXPECT_EQ(Canonical("1/0"), "1/0");
  EXPECT_EQ(Canonical("log(-1)"), "log(-1)");
}

TEST(Expression, PrintsConstantsSoTheyReadBack) {
  for (const double value : {0.0, -0.0, 1e-300, -1e300, 0.1, 1.0 / 3, -7.0, kInf, -kInf}) {
    const std::string text = value < 0 || std::signbit(value) ? "-" + ToText(-value) : ToText(value);
    const Expression e = Expression::Parse(text + "*x0");
    EXPECT_EQ(Expression::Parse(e.Texts()), e) << text;
    EXPECT_EQ(ValueAt(e, {1}), value);
  }
}

TEST(Expression, DerivativesAreSimple) {
  EXPECT_EQ(Slope("max(x0,0)"), "gt(x0,0)");
  EXPECT_EQ(Slope("select(gt(x0,0),x0,0.1*x0)"), "select(gt(x0,0),1,0.1)");
  EXPECT_EQ(Slope("x0*x1", 1), "x0");
  EXPECT_EQ(Slope("x0*x1+x2", 3), "0");
  EXPECT_EQ(Slope("x0*x0"), "x0+x0");
  EXPECT_EQ(Slope("x0-x1", 1), "-1");
  EXPECT_EQ(Slope("tanh(x0)"), "1-tanh(x0)*tanh(x0)");
  EXPECT_EQ(Slope("sign(x0)+floor(x0)+lt(x0,1)"), "0");
  EXPECT_EQ(Slope("select(lt(rand(x1,0),0.5),0,x0*2)"), "select(lt(rand(x1,0),0.5),0,2)");
  EXPECT_EQ(Slope("pow(x0,3)"), "3*(x0*x0)");
}

TEST(Expression, KinksTakeTheDocumentedSide) {
  const auto slope_at = [](std::string_view text, std::vector<double> inputs, int input) {
    return ValueAt(Expression::Parse(text).Derivative(0, input), std::move(inputs));
  };
  EXPECT_EQ(slope_at("max(x0,0)", {0}, 0), 0);
  EXPECT_EQ(slope_at("abs(x0)", {0}, 0), 0);
  EXPECT_EQ(slope_at("max(x0,x1)", {3, 3}, 0), 0);
  EXPECT_EQ(slope_at("max(x0,x1)", {3, 3}, 1), 1);
  EXPECT_EQ(slope_at("min(x0,x1)", {3, 3}, 0), 0);
  EXPECT_EQ(slope_at("min(x0,x1)", {3, 3}, 1), 1);
  EXPECT_EQ(slope_at("pow(x0,x1)", {0, 2}, 1), 0);
  EXPECT_EQ(slope_at("pow(x0,2)", {0}, 0), 0);
}

TEST(Expression, ErrorsNameTheTextAndTheCharacter) {
  const auto error_of = [](std::string_view text) -> std::string {
    try {
      Expression::Parse(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of("x0+"), "expression \"x0+\", character 4: expected a value, found the end");
  EXPECT_EQ(error_of("x0 x1"), "expression \"x0 x1\", character 4: expected an operator or the end, found 'x'");
  EXPECT_THAT(error_of("tan(x0)"),
              HasSubstr("character 1: there is no function or input \"tan\"; did you mean \"tanh\""));
  EXPECT_THAT(error_of("max(x0)"), HasSubstr("character 7: expected ',', found ')'"));
  EXPECT_THAT(error_of("(x0"), HasSubstr("character 4: expected ')', found the end"));
  EXPECT_THAT(error_of("rand(x0+1,2)"), HasSubstr("rand takes an input (the key)"));
  EXPECT_THAT(error_of("rand(x0,x1)"), HasSubstr("rand takes an input (the key)"));
  EXPECT_THAT(error_of("rand(x0,0.5)"), HasSubstr("rand takes an input (the key)"));
  EXPECT_THAT(error_of("x99999999999"), HasSubstr("there is no function or input"));
  EXPECT_THAT(error_of("x0+$"), HasSubstr("expected a value, found '$'"));
  EXPECT_THAT(error_of(std::string(5000, '(')), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(std::string(5000, '-')), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(""), HasSubstr("expected a value, found the end"));
}

// Random expressions
// ---------------------------------------------------------------------------------------------------

class RandomExpression {
 public:
  explicit RandomExpression(uint64_t seed) : random_(seed, 0) {}

  RandomStream& random() { return random_; }
  // Over x0..x2, tame: arguments of log, sqrt, pow and divisors are kept positive.
  std::string Text(int depth) {
    if (depth == 0) return random_.Below(4) == 0 ? ToText(random_.Uniform(-2, 2)) : StrCat("x", random_.Below(3));
    const auto sub = [&] { return Text(static_cast<int>(random_.Below(static_cast<uint64_t>(depth)))); };
    switch (random_.Below(20)) {
      case 0:
      case 1: return StrCat("(", sub(), ")+(", sub(), ")");
      case 2: return StrCat(sub(), "-(", sub(), ")");
      case 3:
      case 4: return StrCat("(", sub(), ")*(", sub(), ")");
      case 5: return StrCat("(", sub(), ")/(1+abs(", sub(), "))");
      case 6: return StrCat("-(", sub(), ")");
      case 7: return StrCat("abs(", sub(), ")");
      case 8: return StrCat("exp(tanh(", sub(), "))");
      case 9: return StrCat("log(1.5+sigmoid(", sub(), "))");
      case 10: return StrCat("sqrt(0.5+abs(", sub(), "))");
      case 11: return StrCat("tanh(", sub(), ")");
      case 12: return StrCat("sigmoid(", sub(), ")");
      case 13: return StrCat("erf(", sub(), ")");
      case 14: return StrCat("max(", sub(), ",", sub(), ")");
      case 15: return StrCat("min(", sub(), ",", sub(), ")");
      case 16: return StrCat("pow(0.5+abs(", sub(), "),tanh(", sub(), "))");
      case 17: return StrCat("select(gt(", sub(), ",", sub(), "),", sub(), ",", sub(), ")");
      case 18: return StrCat("sign(", sub(), ")*(", sub(), ")");
      default: return StrCat("floor(", sub(), ")+(", sub(), ")");
    }
  }
  std::vector<double> Point() { return {random_.Uniform(-2, 2), random_.Uniform(-2, 2), random_.Uniform(-2, 2)}; }

 private:
  RandomStream random_;
};

constexpr int kTrials = 10000;

TEST(ExpressionProperty, TextRoundTrips) {
  RandomExpression make(1);
  for (int trial = 0; trial < kTrials; ++trial) {
    const Expression e = Expression::Parse({make.Text(7), make.Text(4)});
    const std::vector<std::string> texts = e.Texts();
    const Expression again = Expression::Parse(texts);
    ASSERT_EQ(again, e) << texts[0] << "\n" << texts[1];
    ASSERT_EQ(again.Texts(), texts);
  }
}

// At points where the difference quotients of two steps agree (no kink or jump between), the derivative is their limit.
TEST(ExpressionProperty, DerivativeMatchesCentralDifferences) {
  RandomExpression make(2);
  int compared = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::string text = make.Text(5);
    const Expression e = Expression::Parse(text);
    const std::vector<double> x = make.Point();
    for (int input = 0; input < 3; ++input) {
      const auto quotient = [&](double h) {
        std::vector<double> up = x;
        std::vector<double> down = x;
        up[static_cast<size_t>(input)] += h;
        down[static_cast<size_t>(input)] -= h;
        return (ValueAt(e, up) - ValueAt(e, down)) / (2 * h);
      };
      const double near = quotient(1e-5);
      const double scale = std::max({1.0, std::abs(near), std::abs(ValueAt(e, x))});
      if (!std::isfinite(near) || std::abs(near - quotient(2e-5)) > 1e-8 * scale) continue;
      ++compared;
      ASSERT_NEAR(ValueAt(e.Derivative(0, input), x), near, 2e-6 * scale) << text << " by x" << input;
    }
  }
  EXPECT_GT(compared, kTrials * 2);
}

TEST(ExpressionProperty, SubstitutionEqualsEvaluation) {
  RandomExpression make(3);
  for (int trial = 0; trial < kTrials; ++trial) {
    const Expression e = Expression::Parse(make.Text(4));
    const std::vector<Expression> parts = {Expression::Parse(make.Text(3)), Expression::Parse(make.Text(3)),
                                           Expression::Parse(make.Text(3))};
    const std::vector<double> x = make.Point();
    const double expected = ValueAt(e, {ValueAt(parts[0], x), ValueAt(parts[1], x), ValueAt(parts[2], x)});
    ASSERT_DOUBLE_EQ(ValueAt(e.Substitute(parts), x), expected) << e.Texts().front();
  }
}

TEST(Expression, RenumbersSelectsAndJoins) {
  const Expression e = Expression::Parse(std::vector<std::string>{"x0*x2", "x2+1"});
  const int map[] = {4, -1, 0};
  EXPECT_THAT(e.Renumber(map).Texts(), ElementsAre("x4*x0", "x0+1"));
  EXPECT_EQ(e.input_count(), 3);
  EXPECT_FALSE(e.UsesInput(1));
  const int second[] = {1};
  EXPECT_EQ(e.Select(second), Expression::Parse("x2+1"));
  const Expression parts[] = {e, Expression::Parse("exp(x2+1)")};
  EXPECT_EQ(Expression::Join(parts), Expression::Parse(std::vector<std::string>{"x0*x2", "x2+1", "exp(x2+1)"}));
}

TEST(Expression, TextOfDeepSharingStaysShort) {
  const Expression step = Expression::Parse("x0*sigmoid(x0)");
  Expression e = Expression::Parse("x0");
  for (int i = 0; i < 200; ++i) e = step.Substitute(std::span(&e, 1));
  const std::vector<std::string> texts = e.Texts();
  EXPECT_LT(texts[0].size(), 8000U);
  EXPECT_THAT(texts[0], HasSubstr("t0="));
  EXPECT_EQ(Expression::Parse(texts), e);
  // A long chain without sharing is cut into named parts as well, so that it can be read back.
  const Expression tanh = Expression::Parse("tanh(x0)");
  Expression chain = Expression::Parse("x0");
  for (int i = 0; i < 2000; ++i) chain = tanh.Substitute(std::span(&chain, 1));
  EXPECT_EQ(Expression::Parse(chain.Texts()), chain);
  EXPECT_LT(e.Derivative(0, 0).instructions().size(), 3000U);
}

}  // namespace
}  // namespace moka

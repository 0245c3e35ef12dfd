// The layer Formula: values, repeated axes, its gradient's shapes, and texts that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Field(const std::string& formula) { return "formula_param { formula: \"" + formula + "\" }"; }

TEST(FormulaTest, BottomsAreRepeatedAlongAxesOfOne) {
  const BuiltNet net = BuildText(Layer({{2, 3}, {3}}, "Formula", Field("x0 / x1 + 1")));
  EXPECT_THAT(TopValues(net, {{"a", {2, 4, 6, 8, 10, 12}}, {"b", {1, 2, 4}}}, "y"), ElementsAre(3, 3, 2.5, 9, 6, 4));
  EXPECT_EQ(ShapeOf({{2, 1, 4}, {3, 1}}, "Formula", Field("max(x0, x1)")), (Shape{2, 3, 4}));
}

TEST(FormulaTest, PartsMayHaveNames) {
  const BuiltNet net = BuildText(Layer({{3}}, "Formula", Field("t0=x0*x0;select(gt(x0,0),t0,-t0)")));
  EXPECT_THAT(TopValues(net, {{"a", {-2, 0, 3}}}, "y"), ElementsAre(-4, 0, 9));
}

TEST(FormulaTest, TextsThatAreNoFormulas) {
  EXPECT_THAT(ErrorOf({{2}}, "Formula"), HasSubstr("the formula must be given"));
  EXPECT_THAT(ErrorOf({{2}}, "Formula", Field("x0 +")), HasSubstr("expected a value, found the end"));
  EXPECT_THAT(ErrorOf({{2}}, "Formula", Field("sinus(x0)")), HasSubstr("sinus"));
  EXPECT_THAT(ErrorOf({{2}}, "Formula", Field("x0 + x1")), HasSubstr("reads x1, but there are 1 bottoms"));
  EXPECT_THAT(ErrorOf({{2}, {2}}, "Formula", Field("x0")), HasSubstr("does not read x1"));
  EXPECT_THAT(ErrorOf({{2}, {3}}, "Formula", Field("x0 * x1")), HasSubstr("must agree with the others' on axis -1"));
  EXPECT_THAT(ErrorOf({{2}}, "Formula", Field("x0 * rand(x0, 1)")), HasSubstr("random"));
  EXPECT_THAT(ErrorOf({{2}}, "Formula", Field(std::string(5000, '('))), HasSubstr("the limit is 4096"));
  EXPECT_THAT(ErrorOf({{2}}, "Formula", Field(std::string(4000, '('))), HasSubstr("nested"));
}

}  // namespace
}  // namespace moka

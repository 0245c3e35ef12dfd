// Tests of what a build without the layers of research forks says of a net that uses one.
#include "layers/net/fork_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/net/layer.h"
#include "net_run.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr char kPriorBox[] = R"(
layer { name: "p" type: "PriorBox" bottom: "x" bottom: "x" top: "y" prior_box_param { min_size: 8 } }
)";

TEST(ForkTypesTest, AForksTypeIsUnknownAndSaidToBeLeftOut) {
  if (!IsWithoutForks()) GTEST_SKIP() << "this build has the layers of research forks";
  EXPECT_TRUE(IsLeftOut("PriorBox"));
  const std::string errors = ErrorsOf(InputText("x", {1, 3, 8, 8}) + kPriorBox);
  EXPECT_THAT(errors,
              HasSubstr("layer \"p\": unknown layer type \"PriorBox\"; this build leaves out the layers of research "
                        "forks (MOKA_FORKS=OFF)"));
}

TEST(ForkTypesTest, AMistypedNameGetsTheNearestOne) {
  const std::string errors =
      ErrorsOf(InputText("x", {1, 2}) + "layer { name: \"r\" type: \"RELU\" bottom: \"x\" top: \"y\" }");
  EXPECT_THAT(errors, HasSubstr("unknown layer type \"RELU\"; did you mean \"ReLU\"?"));
}

TEST(ForkTypesTest, TypesOfThisBuildAreNone) {
  for (const LayerDef& def : AllLayers()) EXPECT_FALSE(IsLeftOut(def.type)) << def.type;
}

TEST(ForkTypesTest, ABuildWithForksHasTheirTypes) {
  if (IsWithoutForks()) GTEST_SKIP() << kWithoutForks;
  EXPECT_NE(FindLayer("PriorBox"), nullptr);
}

}  // namespace
}  // namespace moka

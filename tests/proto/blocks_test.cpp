// Expansion of blocks, with parameters, places, overrides and bounds.
#include "proto/nets/blocks.h"

#include <gmock/gmock.h>

#include "proto/nets/net_file.h"
#include "proto/text/places.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

std::string ErrorIn(const std::string& text) {
  return ErrorTextOf([&] { NetFromText(text, "n"); });
}

constexpr const char* kUnit = R"(block {
  name: "unit"
  param { name: "id" }
  param { name: "width" default: "64" to: "conv${id}.convolution_param.num_output" to: "scale.scale_param.axis" }
  layer { name: "conv${id}" type: "Convolution" bottom: "${bottom}" top: "conv${id}" convolution_param { kernel_size: 3 weight_filler { type: "${fill}" } } }
  layer { name: "scale" type: "Scale" bottom: "conv${id}" bottom: "${bottom1}" top: "${top}" param { name: "${name}_w" } }
  param { name: "fill" default: "msra" }
}
)";

TEST(Blocks, ExpandWithTheirParameters) {
  const NetParameter net = NetFromText(std::string(kUnit) + R"(layer { name: "in" type: "Input" top: "x" top: "y" }
layer { name: "u1" type: "Block" bottom: "x" bottom: "y" top: "out" block_param { block: "unit" set: "id=2a" set: "width=32" } }
)",
                                       "n");
  ASSERT_EQ(net.layer_size(), 3);
  EXPECT_EQ(net.block_size(), 0);
  const LayerParameter& conv = net.layer(1);
  EXPECT_EQ(conv.name(), "conv2a");
  EXPECT_EQ(conv.bottom(0), "x");
  EXPECT_EQ(conv.top(0), "conv2a");
  EXPECT_EQ(conv.convolution_param().num_output(), 32U);
  EXPECT_EQ(conv.convolution_param().weight_filler().type(), "msra");
  EXPECT_EQ(net.layer(2).bottom(1), "y");
  EXPECT_EQ(net.layer(2).top(0), "out");
  EXPECT_EQ(net.layer(2).param(0).name(), "u1_w");
  EXPECT_EQ(net.layer(2).scale_param().axis(), 32);
}

TEST(Blocks, MultiplyWholeNumbers) {
  const auto width = [](const std::string& value) {
    return NetFromText(std::string(kUnit) +
                           "layer { name: 'in' type: 'Input' top: 'x' }\n"
                           "layer { name: 'u1' type: 'Block' bottom: 'x' bottom: 'x' top: 'out' "
                           "block_param { block: 'unit' set: 'id=1' set: 'width=" +
                           value + "' } }\n",
                       "n")
        .layer(1)
        .convolution_param()
        .num_output();
  };
  EXPECT_EQ(width("6*4"), 24U);
  EXPECT_EQ(width("2 * 3 * 5"), 30U);
  EXPECT_THAT(ErrorTextOf([&] { width("6*wide"); }),
              HasSubstr("takes an integer from 0 to 4294967295, found \"6*wide\""));
  EXPECT_THAT(ErrorTextOf([&] { width("65536*65536"); }),
              HasSubstr("takes an integer from 0 to 4294967295, found \"4294967296\""));
}

TEST(Blocks, KeepPlacesAndNoteTheirUse) {
  const NetParameter net = NetFromText(std::string(kUnit) +
                                           "layer { name: 'in' type: 'Input' top: 'x' }\n"
                                           "layer { name: 'u1' type: 'Block' bottom: 'x' bottom: 'x' top: 'out' "
                                           "block_param { block: 'unit' set: 'id=1' } }\n",
                                       "n");
  EXPECT_EQ(PlaceOf(net.layer(1)).ToString(), "n:5:3");
  EXPECT_EQ(PlaceOf(net.layer(1), "convolution_param.kernel_size").line, 5);
  EXPECT_STREQ(ErrorAt(net.layer(1), {}, "wrong").what(),
               "n:5:3: wrong (in block \"unit\" used by layer \"u1\" at n:10:1)");
}

TEST(Blocks, UseBlocks) {
  const NetParameter net = NetFromText(R"(
block { name: "pair" param { name: "p" }
  layer { name: "${p}_1" type: "Block" bottom: "${bottom}" top: "${p}_1" block_param { block: "one" set: "n=${p}_1" } }
  layer { name: "${p}_2" type: "Block" bottom: "${p}_1" top: "${top}" block_param { block: "one" set: "n=${p}_2" } } }
block { name: "one" param { name: "n" } layer { name: "${n}" type: "ReLU" bottom: "${bottom}" top: "${top}" } }
layer { name: "in" type: "Input" top: "x" }
layer { name: "u" type: "Block" bottom: "x" top: "y" block_param { block: "pair" set: "p=q" } })",
                                       "n");
  ASSERT_EQ(net.layer_size(), 3);
  EXPECT_EQ(net.layer(1).name(), "q_1");
  EXPECT_EQ(net.layer(2).name(), "q_2");
  EXPECT_EQ(net.layer(2).bottom(0), "q_1");
  EXPECT_EQ(net.layer(2).top(0), "y");
  EXPECT_EQ(net.layer(2).origin().note_size(), 2);
}

TEST(Blocks, PassOnTheRulesOfTheirUse) {
  const std::string text =
      "block { name: 'b' layer { name: 'r' type: 'ReLU' bottom: '${bottom}' top: '${top}' } }"
      "layer { name: 'u' type: 'Block' bottom: 'x' top: 'y' include { phase: TRAIN } block_param { block: 'b' } }";
  EXPECT_EQ(NetFromText(text, "n").layer(0).include(0).phase(), TRAIN);
}

TEST(Blocks, TakeOverridesBeforeAndAfterTheyAreExpanded) {
  const std::string text =
      std::string(kUnit) +
      "layer { name: 'u1' type: 'Block' bottom: 'x' bottom: 'y' top: 'out' block_param { block: 'unit' set: 'id=1' } }";
  EXPECT_EQ(NetFromText(text, "n", {.overrides = {"block[unit].param[width].default=8"}})
                .layer(0)
                .convolution_param()
                .num_output(),
            8U);
  EXPECT_EQ(NetFromText(text, "n", {.overrides = {"+layer[u1].block_param.set=width=16"}})
                .layer(0)
                .convolution_param()
                .num_output(),
            16U);
  EXPECT_EQ(NetFromText(text, "n", {.overrides = {"layer[conv1].convolution_param.num_output=9"}})
                .layer(0)
                .convolution_param()
                .num_output(),
            9U);
  const NetParameter plain = NetFromText(text, "n", {.overrides = {}, .expand_blocks = false});
  EXPECT_EQ(plain.block_size(), 1);
  EXPECT_EQ(plain.layer(0).type(), "Block");
}

TEST(Blocks, ExpandedTextReadsBackAsTheSameNet) {
  const NetParameter net = NetFromText(std::string(kUnit) +
                                           "layer { name: 'u1' type: 'Block' bottom: 'x' bottom: 'y' top: 'out' "
                                           "block_param { block: 'unit' set: 'id=1' } }",
                                       "n");
  EXPECT_EQ(NetToText(NetFromText(NetToText(net), "m")), NetToText(net));
}

TEST(BlockErrors, NameUnknownThings) {
  const auto use = [](const std::string& rest) {
    return ErrorIn(std::string(kUnit) + "layer { name: 'u' type: 'Block' bottom: 'x' bottom: 'y' top: 'z'\n  " + rest +
                   " }");
  };
  EXPECT_STREQ(use("block_param { block: 'unt' }").c_str(),
               "n:10:17: there is no block \"unt\"; did you mean \"unit\"?");
  EXPECT_THAT(use("block_param { block: 'unit' set: 'idd=1' }"),
              HasSubstr("n:10:31: block \"unit\" has no parameter \"idd\"; did you mean \"id\"?"));
  EXPECT_THAT(use("block_param { block: 'unit' }"),
              HasSubstr("n:10:3: layer \"u\" does not set parameter \"id\" of block \"unit\"; add set: \"id=...\""));
  EXPECT_THAT(use("block_param { block: 'unit' set: 'id' }"), HasSubstr("expected \"parameter=value\", found \"id\""));
  EXPECT_THAT(use(""), HasSubstr("names no block"));
  EXPECT_THAT(use("relu_param { } block_param { block: 'unit' set: 'id=1' }"),
              HasSubstr("cannot have a \"relu_param\""));
}

TEST(BlockErrors, CheckValuesOfTypedFields) {
  const std::string error = ErrorIn(std::string(kUnit) +
                                    "layer { name: 'u' type: 'Block' bottom: 'x' bottom: 'y' top: 'z' block_param { "
                                    "block: 'unit' set: 'id=1' set: 'width=wide' } }");
  EXPECT_THAT(
      error,
      HasSubstr("n:4:39: parameter \"width\": \"num_output\" takes an integer from 0 to 4294967295, found \"wide\""));
  EXPECT_THAT(error, HasSubstr("in block \"unit\" used by layer \"u\" at n:9:1"));
  EXPECT_THAT(ErrorIn("block { name: 'b' param { name: 'p' default: '1' to: 'con.bias_param.axis' } layer { name: "
                      "'conv' type: 'X' } }"
                      "layer { name: 'u' type: 'Block' block_param { block: 'b' } }"),
              HasSubstr("begins with no layer of the block; did you mean \"conv\"?"));
}

TEST(BlockErrors, CheckVariables) {
  const std::string use = "layer { name: 'u' type: 'Block' bottom: 'x' top: 'z' block_param { block: 'b' } }";
  EXPECT_THAT(ErrorIn("block { name: 'b'\n layer { name: '${nam}' type: 'X' } }" + use),
              HasSubstr("n:2:2: \"${nam}\" is no parameter of the block; did you mean \"name\"? (in block \"b\" used "
                        "by layer \"u\""));
  EXPECT_THAT(ErrorIn("block { name: 'b' layer { name: 'a' type: 'X' bottom: '${bottom1}' } }" + use),
              HasSubstr("\"${bottom1}\" is no parameter"));
  EXPECT_THAT(ErrorIn("block { name: 'b' layer { name: 'a${' type: 'X' } }" + use),
              HasSubstr("has \"${\" without \"}\""));
  EXPECT_THAT(ErrorIn("block { name: 'b' layer { name: 'a' type: 'X' top: '${top}' } }" + use),
              HasSubstr("no layer of block \"b\" reads bottom \"x\""));
  EXPECT_THAT(ErrorIn("block { name: 'b' layer { name: 'a' type: 'X' bottom: '${bottom}' } }" + use),
              HasSubstr("no layer of block \"b\" makes top \"z\""));
}

TEST(BlockErrors, NameBothPlacesOfACollision) {
  const std::string text =
      "block { name: 'b'\n layer { name: 'same' type: 'X' bottom: '${bottom}' top: '${top}' } }\n"
      "layer { name: 'u1' type: 'Block' bottom: 'x' top: 'z' block_param { block: 'b' } }\n"
      "layer { name: 'u2' type: 'Block' bottom: 'z' top: 'w' block_param { block: 'b' } }\n";
  EXPECT_THAT(ErrorIn(text), HasSubstr("layer \"same\" exists already, from n:2:2"));
  EXPECT_THAT(ErrorIn(text), HasSubstr("used by layer \"u2\" at n:4:1"));
  EXPECT_THAT(ErrorIn("block { name: 'b' } block { name: 'b' } layer { name: 'x' type: 'X' }"),
              HasSubstr("block \"b\" is defined twice, first at n:1:1"));
}

TEST(BlockErrors, RefuseCyclesAndBombs) {
  EXPECT_THAT(ErrorIn("block { name: 'a' layer { name: 'x' type: 'Block' block_param { block: 'b' } } }"
                      "block { name: 'b' layer { name: 'y' type: 'Block' block_param { block: 'a' } } }"
                      "layer { name: 'u' type: 'Block' block_param { block: 'a' } }"),
              HasSubstr("block \"a\" uses itself: a -> b -> a"));
  std::string bomb = "block { name: 'b0' layer { name: 'x' type: 'X' } }";
  std::string deep = bomb;
  for (int i = 1; i < 12; ++i) {
    bomb += "block { name: 'b" + std::to_string(i) + "' ";
    for (int j = 0; j < 10; ++j)
      bomb += "layer { name: 'u' type: 'Block' block_param { block: 'b" + std::to_string(i - 1) + "' } }";
    bomb += "}";
  }
  EXPECT_THAT(ErrorIn(bomb + "layer { name: 'u' type: 'Block' block_param { block: 'b11' } }"),
              HasSubstr("expand to more than 100000 layers"));
  for (int i = 1; i < 20; ++i) {
    deep += "block { name: 'b" + std::to_string(i) + "' layer { name: 'u' type: 'Block' block_param { block: 'b" +
            std::to_string(i - 1) + "' } } }";
  }
  EXPECT_THAT(ErrorIn(deep + "layer { name: 'u' type: 'Block' block_param { block: 'b19' } }"),
              HasSubstr("more than 16 deep"));
  std::string text = "block { name: 't0' param { name: 'x' } layer { name: '${x}' type: 'X' } }";
  for (int i = 1; i < 10; ++i) {
    text += "block { name: 't" + std::to_string(i) +
            "' param { name: 'x' } layer { name: 'u' type: 'Block' block_param { block: 't" + std::to_string(i - 1) +
            "' set: 'x=${x}${x}${x}${x}${x}${x}${x}${x}' } } }";
  }
  EXPECT_THAT(ErrorIn(text + "layer { name: 'u' type: 'Block' block_param { block: 't9' set: 'x=abc' } }"),
              HasSubstr("grows beyond 4096 bytes"));
}

TEST(BlockErrors, RefuseABlockParamWithoutItsType) {
  EXPECT_THAT(ErrorIn("layer { name: 'u' type: 'ReLU' block_param { block: 'b' } }"),
              HasSubstr("has a block_param but type \"ReLU\""));
}

}  // namespace
}  // namespace moka

// Building nets: Caffe's shapes, blobs, outputs, rules, sharing, losses, errors at their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "net_run.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const kLeNet = R"(
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { batch_size: 4 } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST } data_param { batch_size: 4 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "relu1" type: "ReLU" bottom: "pool1" top: "pool1" }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 10 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip1" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" }
)";

std::vector<std::string> OutputNames(const BuiltNet& net) {
  std::vector<std::string> names;
  for (const BuiltNet::Output& output : net.outputs) names.push_back(output.name);
  return names;
}

TEST(NetTest, LeNetHasCaffesShapesBlobsAndOutputs) {
  const BuiltNet net = BuildText(kLeNet, TEST);
  EXPECT_EQ(net.graph.shape(net.tops.at("conv1")), (Shape{4, 6, 6, 6}));
  EXPECT_EQ(net.graph.shape(net.tops.at("pool1")), (Shape{4, 6, 3, 3}));
  EXPECT_EQ(net.graph.shape(net.tops.at("ip1")), (Shape{4, 10}));
  EXPECT_EQ(net.graph.shape(net.tops.at("loss")), Shape{});
  ASSERT_EQ(net.blobs.size(), 4U);
  EXPECT_EQ(net.blobs[0].name, "conv1/0");
  EXPECT_EQ(net.blobs[0].shape, (Shape{6, 3, 3, 3}));
  EXPECT_EQ(net.blobs[1].lr_mult, 2);
  EXPECT_EQ(net.blobs[1].role, ParameterRole::kBias);
  EXPECT_EQ(net.blobs[2].shape, (Shape{10, 54}));
  EXPECT_THAT(OutputNames(net), ElementsAre("accuracy", "loss"));
  EXPECT_EQ(net.outputs[0].loss_weight, 0);
  EXPECT_EQ(net.outputs[1].loss_weight, 1);
  ASSERT_EQ(net.data.size(), 1U);
  EXPECT_THAT(net.data[0].tops, ElementsAre("data", "label"));
}

TEST(NetTest, RulesOfThePhaseDecideWhichLayersAreThere) {
  const BuiltNet net = BuildText(kLeNet, TRAIN);
  EXPECT_THAT(OutputNames(net), ElementsAre("loss"));
  EXPECT_EQ(net.param.layer_size(), 6);
  EXPECT_EQ(net.param.layer(1).phase(), TRAIN);
}

TEST(NetTest, InPlaceTopsOnlyRename) {
  const BuiltNet net = BuildText(InputText("x", {2, 3}) + R"(
    layer { name: "a" type: "Power" bottom: "x" top: "x" power_param { scale: 2 } }
    layer { name: "b" type: "Power" bottom: "x" top: "x" power_param { shift: 1 } }
    layer { name: "c" type: "AbsVal" bottom: "x" top: "y" })");
  EXPECT_THAT(TopValues(net, {{"x", {1, -1, 2, -2, 3, -3}}}, "y"), ElementsAre(3, 1, 5, 3, 7, 5));
  std::vector<std::string> trace;
  for (const auto& [name, value] : net.trace) trace.push_back(name);
  EXPECT_THAT(trace, ElementsAre("x:x", "a:x", "b:x", "c:y"));
}

TEST(NetTest, ABlobMayBeReadByManyLayers) {
  const BuiltNet net = BuildText(InputText("x", {2}) + R"(
    layer { name: "a" type: "AbsVal" bottom: "x" top: "a" }
    layer { name: "b" type: "Eltwise" bottom: "x" bottom: "a" top: "b" })");
  EXPECT_THAT(TopValues(net, {{"x", {1, -2}}}, "b"), ElementsAre(2, 0));
  EXPECT_THAT(OutputNames(net), ElementsAre("b"));
}

TEST(NetTest, TheLossIsTheWeightedSumOfAllElements) {
  const BuiltNet net = BuildText(InputText("x", {2}) + InputText("t", {2}) + R"(
    layer { name: "a" type: "AbsVal" bottom: "x" top: "a" loss_weight: 0.5 }
    layer { name: "e" type: "EuclideanLoss" bottom: "x" bottom: "t" top: "e" })");
  const auto values = Evaluate(net.graph, {{"x", {3, -1}}, {"t", {1, 1}}}, {net.loss});
  EXPECT_EQ(values[0].type.shape, Shape{});
  EXPECT_DOUBLE_EQ(values[0].values[0], 0.5 * 4 + (4 + 4) / 4.0);
}

TEST(NetTest, ALossWithoutTopStillCounts) {
  const BuiltNet net = BuildText(InputText("x", {1, 2}) + InputText("t", {1, 2}) +
                                 R"(layer { name: "e" type: "EuclideanLoss" bottom: "x" bottom: "t" })");
  EXPECT_DOUBLE_EQ(Evaluate(net.graph, {{"x", {3, 1}}, {"t", {1, 1}}}, {net.loss})[0].values[0], 2);
  EXPECT_TRUE(net.outputs.empty());
}

TEST(NetTest, ANetWithoutLossHasNone) { EXPECT_EQ(BuildText(InputText("x", {2})).loss, kNoId); }

TEST(NetTest, PropagateDownFalseStopsTheGradient) {
  const BuiltNet net = BuildText(InputText("x", {2}) + R"(
    layer { name: "a" type: "AbsVal" bottom: "x" top: "a" propagate_down: false })");
  EXPECT_EQ(OpsOf(net, "a"), "stop_gradient pointwise");
}

TEST(NetTest, ParametersOfOneNameAreShared) {
  const BuiltNet net = BuildText(InputText("x", {2, 3}) + R"(
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" param { name: "w" } inner_product_param {
      num_output: 3 bias_term: false } }
    layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" lr_mult: 3 } inner_product_param {
      num_output: 3 bias_term: false } })");
  ASSERT_EQ(net.blobs.size(), 2U);
  EXPECT_EQ(net.blobs[0].state, net.blobs[1].state);
  EXPECT_FALSE(net.blobs[0].shared);
  EXPECT_TRUE(net.blobs[1].shared);
  EXPECT_EQ(net.blobs[0].name, "w");
  EXPECT_EQ(net.blobs[0].lr_mult, 3);  // only the second use says one
}

TEST(NetTest, PermissiveSharingNeedsOnlyEqualCounts) {
  const std::string text = InputText("x", {2, 3}) + R"(
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" param { name: "w" } inner_product_param {
      num_output: 2 bias_term: false } }
    layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" MODE } inner_product_param {
      num_output: 3 bias_term: false } })";
  const auto with = [&](const std::string& mode) {
    std::string changed = text;
    return changed.replace(changed.find("MODE"), 4, mode);
  };
  EXPECT_EQ(ErrorsOf(with("share_mode: PERMISSIVE")), "built");
  EXPECT_THAT(ErrorsOf(with("")),
              HasSubstr("layer \"b\": shares the parameter \"w\" of layer \"a\" (at net.prototxt:3:5), whose shape is "
                        "[2,3] while this layer needs [3,2]"));
}

TEST(NetTest, RandomLayersShareOneKey) {
  const BuiltNet net = BuildText(InputText("x", {2}) + R"(
    layer { name: "a" type: "Dropout" bottom: "x" top: "a" }
    layer { name: "b" type: "Dropout" bottom: "a" top: "b" })");
  EXPECT_EQ(net.graph.type(IdOf(net.graph, "random_key")).dtype, DType::kInt64);
}

// ---- Mistakes ----

TEST(NetErrorTest, UnknownTypeNamesTheNearest) {
  EXPECT_EQ(ErrorsOf(InputText("x", {2}) + "layer { name: \"c\" type: \"Convolutoin\" bottom: \"x\" top: \"c\" }"),
            "net.prototxt:2:19: layer \"c\": unknown layer type \"Convolutoin\"; did you mean \"Convolution\"?");
}

TEST(NetErrorTest, UnknownBottomNamesTheNearestBlobAndItsPlace) {
  EXPECT_EQ(ErrorsOf(InputText("conv1", {2}) + "layer { name: \"r\" type: \"ReLU\" bottom: \"conv2\" top: \"r\" }"),
            "net.prototxt:2:32: layer \"r\": no layer produces bottom \"conv2\"; did you mean \"conv1\"? (top of the "
            "layer \"conv1\" at net.prototxt:1:1)");
}

TEST(NetErrorTest, BottomOfALayerThatRulesLeaveOutNamesThem) {
  const auto errors = [](const std::string& rules) {
    return ErrorsOf("layer { name: \"d\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 } } " + rules +
                    " }\nlayer { name: \"r\" type: \"ReLU\" bottom: \"x\" top: \"r\" }");
  };
  EXPECT_EQ(
      errors("include { stage: \"train\" }"),
      "net.prototxt:2:32: layer \"r\": bottom \"x\" is not in this net: the layer \"d\" at net.prototxt:1:1 makes it "
      "by include { stage: \"train\" }, and this is phase TRAIN, level 0, no stage; write train_state { stage: "
      "\"train\" } in the solver, or give --stage=train to moka train, time or model show");
  EXPECT_THAT(errors("include { min_level: 1 stage: \"a\" stage: \"b\" }"),
              HasSubstr("write train_state { level: 1 stage: \"a\" stage: \"b\" } in the solver, or give --level=1 "
                        "--stage=a,b to moka train, time or model show"));
  EXPECT_THAT(errors("exclude { phase: TRAIN }"),
              testing::EndsWith("makes it by exclude { phase: TRAIN }, and this is phase TRAIN, level 0, no stage"));
}

TEST(NetErrorTest, LayersOfOneTopWithRulesOfStagesNameThem) {
  EXPECT_THAT(
      ErrorsOf("layer { name: \"a\" type: \"Input\" top: \"x\" include { not_stage: \"b\" } }\n"
               "layer { name: \"b\" type: \"Input\" top: \"x\" include { phase: TRAIN } }"),
      HasSubstr("top \"x\" is already produced by the layer \"a\" at net.prototxt:1:1; phase TRAIN, level 0, no "
                "stage lets both in, the first by include { not_stage: \"b\" }, this one by include { phase: TRAIN "
                "}: let the rules leave one of them out there"));
}

TEST(NetErrorTest, BottomProducedLaterSaysSo) {
  const std::string text = R"(layer { name: "a" type: "ReLU" bottom: "b" top: "a" }
layer { name: "b" type: "ReLU" bottom: "a" top: "b" })";
  EXPECT_EQ(ErrorsOf(text),
            "net.prototxt:1:32: layer \"a\": bottom \"b\" is produced only later, by the layer \"b\" at "
            "net.prototxt:2:1; a layer reads tops of layers before it: change the order, or break the cycle");
  EXPECT_THAT(ErrorsOf("layer { name: \"a\" type: \"ReLU\" bottom: \"a\" top: \"a\" }"),
              HasSubstr("bottom \"a\" is its own top; no layer before it produces that blob"));
}

TEST(NetErrorTest, DuplicateTopNamesBothPlaces) {
  EXPECT_EQ(
      ErrorsOf(InputText("x", {2}) + "layer { name: \"a\" type: \"AbsVal\" bottom: \"x\" top: \"y\" }\n" +
               "layer { name: \"b\" type: \"ReLU\" bottom: \"x\" top: \"y\" }"),
      "net.prototxt:3:44: layer \"b\": top \"y\" is already produced by the layer \"a\" at net.prototxt:2:1; rename "
      "one of them; in place is only top 0 equal to bottom 0");
  EXPECT_THAT(ErrorsOf("layer { name: \"a\" type: \"Input\" top: \"x\" top: \"x\" input_param { shape { dim: 1 } } }"),
              HasSubstr("top \"x\" is given twice"));
}

TEST(NetTest, LayersOfOneNameAndWithoutAreToldApart) {
  const std::string ip = "type: \"InnerProduct\" inner_product_param { num_output: 3 bias_term: false } ";
  const BuiltNet net = BuildText(InputText("x", {2, 4}) + "layer { name: \"a\" bottom: \"x\" top: \"y\" " + ip +
                                     "} layer { name: \"a\" bottom: \"x\" top: \"z\" " + ip +
                                     "} layer { bottom: \"z\" top: \"w\" " + ip + "}",
                                 TEST);
  ASSERT_EQ(net.blobs.size(), 3U);
  EXPECT_EQ(net.blobs[0].name, "a/0");
  EXPECT_EQ(net.blobs[1].name, "a#2/0");
  EXPECT_EQ(net.blobs[2].name, "InnerProduct/0");
}

TEST(NetErrorTest, UnknownFieldsAreErrorsOfLayersThatAreUsed) {
  const std::string text = InputText("x", {2}) +
                           "layer { name: \"a\" type: \"ReLU\" bottom: \"x\" top: \"y\" relu_parm { slope: 1 } "
                           "include { phase: TRAIN } }";
  EXPECT_THAT(ErrorsOf(text), HasSubstr("LayerParameter has no field \"relu_parm\"; did you mean \"relu_param\""));
  EXPECT_EQ(BuildText(text, TEST).param.layer_size(), 1);
  EXPECT_THAT(ErrorsOf("memory: 3 " + InputText("x", {2})), HasSubstr("NetParameter has no field \"memory\""));
}

TEST(NetErrorTest, LayersNeedAType) {
  EXPECT_THAT(ErrorsOf("layer { name: \"s\" }"), HasSubstr("layer \"s\": no type is given"));
}

TEST(NetErrorTest, CountsOfBottomsAndTops) {
  const std::string x = InputText("x", {2, 3});
  EXPECT_THAT(ErrorsOf(x + "layer { name: \"a\" type: \"ReLU\" top: \"y\" }"),
              HasSubstr("ReLU takes 1 bottom, found 0"));
  EXPECT_THAT(ErrorsOf(x + "layer { name: \"a\" type: \"ReLU\" bottom: \"x\" bottom: \"x\" top: \"y\" }"),
              HasSubstr("net.prototxt:2:44: layer \"a\": ReLU takes 1 bottom, found 2"));
  EXPECT_THAT(ErrorsOf(x + "layer { name: \"a\" type: \"Silence\" bottom: \"x\" top: \"y\" }"),
              HasSubstr("Silence takes no top, found 1"));
  EXPECT_THAT(ErrorsOf(x + "layer { name: \"a\" type: \"Eltwise\" top: \"y\" }"),
              HasSubstr("Eltwise takes at least 1 bottom, found 0"));
  EXPECT_THAT(ErrorsOf(x + "layer { name: \"a\" type: \"Accuracy\" bottom: \"x\" bottom: \"x\" }"),
              HasSubstr("Accuracy takes 1 or 2 tops, found 0"));
  EXPECT_THAT(
      ErrorsOf(x + "layer { name: \"a\" type: \"ReLU\" bottom: \"x\" top: \"y\" loss_weight: 1 loss_weight: 1 }"),
      HasSubstr("loss_weight is given 2 times for 1 tops"));
  EXPECT_THAT(
      ErrorsOf(x + "layer { name: \"a\" type: \"ReLU\" bottom: \"x\" top: \"y\" propagate_down: 1 propagate_down: 1 }"),
      HasSubstr("propagate_down is given 2 times for 1 bottoms"));
}

TEST(NetErrorTest, EachMistakeIsReportedOnce) {
  const std::string errors = ErrorsOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param { num_output: 1 kernel_size: 3 } }
layer { name: "b" type: "ReLU" bottom: "a" top: "b" }
layer { name: "c" type: "RELU" bottom: "b" top: "c" }
layer { name: "d" type: "ReLU" bottom: "nothing" top: "d" }
layer { name: "e" type: "ReLU" bottom: "nothing" top: "e" })");
  const std::vector<std::string> lines = Split(errors, '\n');
  ASSERT_EQ(lines.size(), 3U) << errors;
  EXPECT_THAT(lines[0], HasSubstr("net.prototxt:3:39: layer \"a\": the bottom must be [N,C] and 1 to 3 spatial axes"));
  EXPECT_THAT(lines[1], HasSubstr("unknown layer type \"RELU\"; did you mean \"ReLU\"?"));
  EXPECT_THAT(lines[2], HasSubstr("no layer produces bottom \"nothing\""));
}

TEST(NetErrorTest, HostileSizesAreRefused) {
  const auto input = [](const std::string& dims) {
    return ErrorsOf("layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { " + dims + " } } }");
  };
  EXPECT_THAT(input("dim: 0"), HasSubstr("every dimension must be at least 1, found 0"));
  EXPECT_THAT(input("dim: -5"), HasSubstr("every dimension must be at least 1, found -5"));
  EXPECT_THAT(input("dim: 9000000000 dim: 9000000000 dim: 9000000000"), HasSubstr("overflow"));
  EXPECT_THAT(input("dim: 1000000000 dim: 1000000"), HasSubstr("the limit is 64.0 TiB"));
  EXPECT_THAT(input("dim: 1 dim: 1 dim: 1 dim: 1 dim: 1 dim: 1 dim: 1 dim: 1 dim: 1"), HasSubstr("the limit is 8"));
  EXPECT_THAT(ErrorsOf(InputText("x", {2, 1000000}) +
                       "layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\" top: \"a\" inner_product_param { "
                       "num_output: 1000000000 } }"),
              HasSubstr("parameter 0 of layer \"a\" would have the shape [1000000000,1000000]"));
}

TEST(NetErrorTest, ParametersThatDoNotExistAreRefused) {
  EXPECT_THAT(ErrorsOf(InputText("x", {2, 3}) +
                       "layer { name: \"a\" type: \"ReLU\" bottom: \"x\" top: \"a\" param { lr_mult: 1 } }"),
              HasSubstr("param is given 1 times but the layer has 0 parameters"));
}

TEST(NetErrorTest, SharedMultipliersMustAgree) {
  EXPECT_THAT(ErrorsOf(InputText("x", {2, 3}) + R"(
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" param { name: "w" lr_mult: 1 } inner_product_param {
      num_output: 3 bias_term: false } }
    layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" lr_mult: 3 } inner_product_param {
      num_output: 3 bias_term: false } })"),
              HasSubstr("layer \"b\": lr_mult is 3 but the shared parameter has 1 in layer \"a\""));
}

// Uses of a shared parameter that give it no gradient: as a GAN's two halves in one net say it, and as Caffe's first
// pseudo-labels did, whose later use has lr_mult 0.
TEST(NetTest, AUseOfAParameterMayGiveItNoGradient) {
  // Whether the uses in the layers a and b hold the gradient back.
  const auto held = [](const std::string& first, const std::string& second) {
    const auto layer = [](const std::string& name, const std::string& bottom, const std::string& spec) {
      return "layer { name: \"" + name + "\" type: \"InnerProduct\" bottom: \"" + bottom + "\" top: \"" + name +
             "\" param { name: \"w\" " + spec + " } inner_product_param { num_output: 3 bias_term: false } }";
    };
    const BuiltNet net = BuildText(InputText("x", {2, 3}) + layer("a", "x", first) + layer("b", "a", second));
    const auto is_held = [&](const std::string& name) {
      return OpsOf(net, name).find("stop_gradient") != std::string::npos;
    };
    return std::pair(is_held("a"), is_held("b"));
  };
  EXPECT_EQ(held("lr_mult: 1", "lr_mult: 1"), std::pair(false, false));
  EXPECT_EQ(held("lr_mult: 1 param_propagate_down: false", "lr_mult: 1"), std::pair(true, false));
  EXPECT_EQ(held("param_propagate_down: true", "param_propagate_down: false"), std::pair(false, true));
  EXPECT_EQ(held("lr_mult: 1", "lr_mult: 0"), std::pair(false, true));
  EXPECT_EQ(held("lr_mult: 0", "lr_mult: 0"), std::pair(false, false));
}

TEST(NetErrorTest, ParameterNamesCannotTakeAnotherLayersKey) {
  EXPECT_THAT(ErrorsOf(InputText("x", {2, 3}) + R"(
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 3 } }
    layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "a/0" } inner_product_param {
      num_output: 3 } })"),
              HasSubstr("the parameter's name \"a/0\" is also how a parameter of layer \"a\""));
}

TEST(NetErrorTest, FillersAreCheckedWhenTheNetIsBuilt) {
  EXPECT_THAT(ErrorsOf(InputText("x", {2, 3}) + R"(
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 3
      weight_filler { type: "xavir" } } })"),
              HasSubstr("net.prototxt:4:7: layer \"a\": unknown filler type \"xavir\"; did you mean \"xavier\"?"));
}

TEST(NetErrorTest, ANetWithoutLayersSaysSo) {
  EXPECT_THAT(ErrorsOf("layer { name: \"x\" type: \"Silence\" include { phase: TEST } }"),
              HasSubstr("the net has no layer in phase TRAIN; check its layers' include and exclude rules"));
}

TEST(NetTest, ABlobAndAParameterMayShareAName) {
  const std::string ip =
      "type: \"InnerProduct\" param { name: \"x\" } inner_product_param { num_output: 3 bias_term: false } ";
  const BuiltNet net = BuildText(InputText("x", {2, 3}) + "layer { name: \"a\" bottom: \"x\" top: \"a\" " + ip +
                                 "} layer { name: \"b\" bottom: \"x\" top: \"b\" " + ip + "}");
  ASSERT_EQ(net.blobs.size(), 2U);
  EXPECT_EQ(net.blobs[0].name, "@x");
  EXPECT_TRUE(net.blobs[1].shared);
}

TEST(NetErrorTest, MessagesStayOnOneLine) {
  EXPECT_THAT(ErrorsOf("layer { name: \"a\\nb\" type: \"ReLU\" bottom: \"c\\td\" top: \"y\" }"),
              HasSubstr("layer \"a\\x0ab\": no layer produces bottom \"c\\x09d\""));
}

TEST(NetErrorTest, AReservedTopNameIsRefused) {
  EXPECT_THAT(ErrorsOf(InputText("random_key", {1})), HasSubstr("the name \"random_key\" is Moka's own"));
}

TEST(NetTest, AnAttemptTellsHowFarANetBuilds) {
  const auto attempt = [](const std::string& text) {
    NetOptions options;
    options.state.set_phase(TRAIN);
    options.data_types = [](const LayerParameter&) {
      return std::vector<TensorType>(2, TensorType{DType::kFloat32, Shape{4, 3}, {}});
    };
    options.top_shapes = {{"label", Shape{4}}};
    return AttemptNet(NetFromText(text, "net.prototxt"), options);
  };
  const std::string data = "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } } ";
  const std::string slice =
      "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' slice_param { slice_point: 3 } } ";
  const NetAttempt whole = attempt(data);
  EXPECT_TRUE(whole.builds);
  EXPECT_EQ(whole.blobs.at("data"), (Shape{4, 3}));
  EXPECT_EQ(whole.blobs.at("label"), (Shape{4}));
  ASSERT_EQ(whole.data.size(), 1U);
  EXPECT_EQ(whole.data[0].types[1].shape, (Shape{4}));
  const NetAttempt cut = attempt(data + slice + "layer { name: 'r' type: 'ReLU' bottom: 'b' top: 'r' } ");
  EXPECT_FALSE(cut.builds);
  EXPECT_TRUE(cut.may_fit);
  EXPECT_THAT(cut.is_built, ElementsAre(true, false, false));
  ASSERT_EQ(cut.failures.size(), 1U);
  EXPECT_EQ(cut.failures[0].layer, 1);
  EXPECT_THAT(cut.failures[0].text, HasSubstr("slice_point"));
  EXPECT_FALSE(cut.blobs.contains("b"));
  EXPECT_FALSE(attempt(data + slice + "layer { name: 'o' type: 'Odd' bottom: 'data' top: 'o' } ").may_fit);
}

}  // namespace
}  // namespace moka

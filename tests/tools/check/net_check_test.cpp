// The findings of a net's check beside its shapes, and shapes that run up through several layers to the data.
#include "tools/check/net_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/shapes/bottom_shapes.h"
#include "tests/tools/nets/looked_at.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(NetCheckTest, ClassesLeftToTheCommandLineAreAssumed) {
  const std::string scores =
      "layer { name: 'hidden' type: 'InnerProduct' bottom: 'data' top: 'hidden' inner_product_param { num_output: 4 } "
      "} "
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'hidden' top: 'fc' } ";
  const StateCheck check = Check(kTwoTops + scores + Loss("SoftmaxWithLoss", "fc", "label"));
  EXPECT_EQ(TopOf(check, "fc:fc"), (Shape{2, kAssumedClasses}));
  EXPECT_THAT(check.open_classes, ElementsAre("fc"));
  EXPECT_THAT(check.assumed, testing::Contains(Pair("fc", Shape{2, kAssumedClasses})));
  // Only scores are classes: features for another layer, or none at all, are the net's own.
  const std::string more =
      "layer { name: 'more' type: 'InnerProduct' bottom: 'fc' top: 'more' inner_product_param { num_output: 4 } } ";
  EXPECT_THAT(Check(kTwoTops + scores + more).error, HasSubstr("layer \"fc\": num_output must be given"));
  const std::string zero =
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc' "
      "inner_product_param { num_output: 0 } } ";
  EXPECT_THAT(Check(kTwoTops + zero + Loss("SoftmaxWithLoss", "fc", "label")).error,
              HasSubstr("num_output must be given and at least 1"));
}

TEST(NetCheckTest, APhaseWithoutDataIsSaidToBeOne) {
  const auto check = [](const std::string& text, Phase phase) {
    NetState state;
    state.set_phase(phase);
    return CheckNet(NetFromText(text, "net.prototxt"), state, {}).error;
  };
  const std::string data = "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'x' batch_size: 2 } ";
  const std::string reader = "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' } ";
  EXPECT_THAT(check(data + "include { phase: TRAIN } } " + reader, TEST),
              HasSubstr("bottom \"data\" is not in this net: the layer \"d\" at net.prototxt:1:1 makes it by include { "
                        "phase: TRAIN }, and this is phase TEST, level 0, no stage; the net has data layers for TRAIN "
                        "only"));
  EXPECT_EQ(check(data + "include { phase: TRAIN } } " + reader, TRAIN), "");
  EXPECT_THAT(check(data + "exclude { phase: TRAIN } } " + reader, TRAIN), HasSubstr("data layers for TEST only"));
  // No data in either, or other mistakes: nothing is said.
  EXPECT_THAT(check(reader, TEST), testing::Not(HasSubstr("only")));
  EXPECT_THAT(check(data + "} layer { name: 'o' type: 'Odd' bottom: 'data' top: 'o' }", TEST),
              testing::Not(HasSubstr("only")));
}

TEST(NetCheckTest, OnlyPhasesWithoutDataAreLeftOut) {
  const auto phases = [](const std::string& text) {
    std::vector<Phase> found;
    for (const NetState& state : DeclaredStates(NetFromText(text, "net.prototxt"))) found.push_back(state.phase());
    return found;
  };
  const auto data = [](const std::string& rule) {
    return StrCat("layer { name: 'd' type: 'Data' top: 'data' ", rule, " } ");
  };
  const std::string accuracy = "layer { name: 'a' type: 'Accuracy' bottom: 'data' include { phase: TEST } } ";
  EXPECT_THAT(phases(data("") + accuracy), ElementsAre(TRAIN, TEST));
  EXPECT_THAT(phases(data("include { phase: TEST }") + accuracy), ElementsAre(TEST));
  EXPECT_THAT(phases(data("exclude { phase: TEST }")), ElementsAre(TRAIN));
  EXPECT_THAT(phases(data("include { phase: TRAIN stage: 's' }")), ElementsAre(TRAIN, TRAIN));
  EXPECT_THAT(phases(accuracy), ElementsAre(TRAIN, TEST));
  EXPECT_THAT(phases("state { phase: TRAIN } " + data("") + accuracy), ElementsAre(TRAIN));
}

TEST(NetCheckTest, FewStagesAreTriedInAllTheirCombinations) {
  const auto states = [](int stages) {
    std::string text = "layer { name: 'x' type: 'ReLU' ";
    for (int i = 0; i < stages; ++i) text += StrCat("include { phase: TEST stage: 's", i, "' } ");
    return DeclaredStates(NetFromText(text + "}", "net.prototxt"));
  };
  EXPECT_EQ(states(0).size(), 2U);  // both phases
  EXPECT_EQ(states(3).size(), 2 * 8U);
  EXPECT_EQ(states(4).size(), 2 * 16U);
  EXPECT_EQ(states(5).size(), 2 * (1U + 5 + 10));  // pairs
  EXPECT_EQ(states(9).size(), 2 * (1U + 9));
}

TEST(NetCheckTest, TrialsOfShapesDoNotWarn) {
  testing::internal::CaptureStderr();
  const StateCheck check = Check(StrCat(kTwoTops, kPredictions, Loss("EuclideanLoss", "fc", "label"),
                                        "layer { name: 'fc' type: 'ReLU' bottom: 'fc' top: 'r' } "));
  const std::string narration = testing::internal::GetCapturedStderr();
  EXPECT_EQ(TopOf(check, "d:label"), (Shape{2, 10}));
  const size_t warning = narration.find("the name \"fc\" is taken");
  ASSERT_NE(warning, std::string::npos) << narration;
  EXPECT_EQ(narration.find("the name \"fc\" is taken", warning + 1), std::string::npos) << narration;
}

std::string Rows(const std::string& top, int batch) {
  return StrCat("layer { name: 'd_", top, "' type: 'HDF5Data' top: '", top,
                "' hdf5_data_param { source: 'x' batch_size: ", batch, " } } ");
}

std::string InnerProduct(const std::string& bottom, const std::string& top, const std::string& fields) {
  return StrCat("layer { name: '", top, "' type: 'InnerProduct' bottom: '", bottom, "' top: '", top,
                "' inner_product_param { ", fields, " } } ");
}

TEST(ShapeNeedsTest, ScoresOfSequencesHaveMarksAndLabelsOfTheirs) {
  const std::string net =
      "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'marks' top: 'labels' "
      "hdf5_data_param { source: 'x' batch_size: 7 } } "
      "layer { name: 'l' type: 'LSTM' bottom: 'data' bottom: 'marks' top: 'l' "
      "recurrent_param { num_output: 4 } } " +
      InnerProduct("l", "ip", "num_output: 5 axis: 2") +
      "layer { name: 'loss' type: 'CTCLoss' bottom: 'ip' bottom: 'marks' bottom: 'labels' top: 'loss' }";
  const StateCheck check = Check(net);
  EXPECT_EQ(TopOf(check, "d:marks"), (Shape{7, 3}));
  EXPECT_EQ(TopOf(check, "d:labels"), (Shape{7, 3}));
}

TEST(ShapeNeedsTest, ARecurrentLayersStepsRunUpToItsWords) {
  const std::string net = PythonData("words marks image") +
                          "layer { name: 'e' type: 'Embed' bottom: 'words' top: 'e' embed_param { input_dim: 9 "
                          "num_output: 6 bias_term: false } } "
                          "layer { name: 'l' type: 'LSTM' bottom: 'e' bottom: 'marks' top: 'l' "
                          "recurrent_param { num_output: 4 } } " +
                          InnerProduct("l", "a", "num_output: 3 axis: 2") +
                          InnerProduct("image", "i", "num_output: 3") +
                          "layer { name: 'r' type: 'Reshape' bottom: 'i' top: 'r' reshape_param { shape { dim: 1 "
                          "dim: -1 dim: 3 } } } "
                          "layer { name: 't' type: 'Tile' bottom: 'r' top: 't' tile_param { axis: 0 tiles: 5 } } "
                          "layer { name: 's' type: 'Eltwise' bottom: 'a' bottom: 't' top: 's' }";
  const StateCheck check = Check(net);
  EXPECT_EQ(TopOf(check, "s:s")[0], 5) << check.error;
  EXPECT_EQ(TopOf(check, "d:words")[0], 5);
  EXPECT_EQ(TopOf(check, "d:marks")[0], 5);
}

TEST(ShapeNeedsTest, MapsOfAConvLstmHaveItsStatesStreamsAndSize) {
  const auto net = [](const std::string& before, const std::string& x) {
    return Rows("marks", 4) + Rows("x", 4) + before +
           "layer { name: 'h' type: 'DummyData' top: 'h' dummy_data_param { shape { dim: [1, 2, 5, 8, 9] } } } "
           "layer { name: 'c' type: 'ConvLSTM' bottom: '" +
           x +
           "' bottom: 'marks' bottom: 'h' bottom: 'h' top: 'c' top: 'ch' top: 'cc' recurrent_param { expose_hidden: "
           "true } lstm_conv_param { num_output: 5 kernel_size: 3 pad: 1 } } ";
  };
  const StateCheck check = Check(net("", "x"));
  EXPECT_EQ(TopOf(check, "d_x:x"), (Shape{4, 2, 3, 8, 9}));
  EXPECT_EQ(TopOf(check, "d_marks:marks"), (Shape{4, 2}));
  // Files that hold the streams first.
  const std::string permute =
      "layer { name: 'p' type: 'Permute' bottom: 'y' top: 'p' permute_param { order: 1 order: 0 order: 2 order: 3 } } ";
  EXPECT_EQ(TopOf(Check(net(Rows("y", 2) + permute, "p")), "d_y:y"), (Shape{2, 4, 1, 8, 9}));
}

TEST(ShapeNeedsTest, AReshapeCountsWhatAPermuteTookFromTheFile) {
  const std::string net =
      Rows("x", 2) +
      "layer { name: 'p' type: 'Permute' bottom: 'x' top: 'p' permute_param { order: [1, 0, 2, 3] } } "
      "layer { name: 'r' type: 'Reshape' bottom: 'p' top: 'r' reshape_param { shape { dim: [10, 2, "
      "1, 6, 7] } } } ";
  EXPECT_EQ(TopOf(Check(net), "d_x:x"), (Shape{2, 10, 6, 7}));
}

TEST(ShapeNeedsTest, WhatIsDividedOrCutNeedsSoManyItems) {
  const std::string divided = PythonData("x y") + InnerProduct("x", "ip", "num_output: 3") +
                              "layer { name: 'r' type: 'Reshape' bottom: 'ip' top: 'r' reshape_param { shape { dim: -1 "
                              "dim: 20 dim: 3 } } } ";
  const StateCheck check = Check(divided);
  EXPECT_EQ(TopOf(check, "d:x"), (Shape{20, 3, 224, 224}));
  EXPECT_EQ(TopOf(check, "d:y"), (Shape{20}));
  const std::string cut = PythonData("x y") + InnerProduct("x", "ip", "num_output: 3") +
                          "layer { name: 's' type: 'Slice' bottom: 'ip' top: 'a' top: 'b' top: 'c' "
                          "slice_param { axis: 0 slice_point: 4 slice_point: 8 } } ";
  EXPECT_EQ(TopOf(Check(cut), "d:x")[0], 12);
  // A first shape that the user gave stays, whatever the layer's other tops would need.
  EXPECT_THAT(Check(cut, {{"x", Shape{5, 2}}}).error, HasSubstr("slice_point"));
  const std::string triplets = PythonData("x y") + InnerProduct("x", "ip", "num_output: 3") +
                               "layer { name: 't' type: 'Python' bottom: 'ip' bottom: 'y' top: 'a' top: 'p' top: 'n' "
                               "python_param { module: 'tripletselectlayer' layer: 'TripletSelectLayer' } } ";
  EXPECT_EQ(TopOf(Check(triplets), "d:x")[0], 3);
}

TEST(ShapeNeedsTest, AKernelOfThreeAxesIsForCubes) {
  const std::string net =
      Rows("x", 1) +
      "layer { name: 'n' type: 'BatchNorm' bottom: 'x' top: 'n' } "
      "layer { name: 'c' type: 'Convolution' bottom: 'n' top: 'c' convolution_param { num_output: 2 "
      "kernel_size: 3 kernel_size: 3 kernel_size: 3 } } ";
  EXPECT_EQ(TopOf(Check(net), "c:c"), (Shape{1, 2, 222, 222, 222}));
}

TEST(ShapeNeedsTest, WhatAPythonLayerMakesMayHaveAnyShape) {
  const std::string net = PythonData("data boxes") +
                          "layer { name: 'p' type: 'Python' bottom: 'boxes' bottom: 'data' top: 'mine' top: 'kinds' "
                          "python_param { module: 'my' layer: 'Targets' } } "
                          "layer { name: 'r' type: 'PSROIPooling' bottom: 'data' bottom: 'mine' top: 'r' "
                          "psroi_pooling_param { spatial_scale: 1 output_dim: 3 group_size: 1 } } " +
                          InnerProduct("r", "ip", "num_output: 4") + Loss("SoftmaxWithLoss", "ip", "kinds");
  const StateCheck check = Check(net);
  EXPECT_EQ(check.error, "");
  EXPECT_EQ(TopOf(check, "p:mine"), (Shape{128, 5}));
  EXPECT_EQ(TopOf(check, "p:kinds"), (Shape{128}));
}

TEST(ShapeNeedsTest, PicturesBesideTheFirstFitTheirWindows) {
  const std::string conv = "type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 } ";
  const std::string net = PythonData("data depth") + StrCat("layer { name: 'a' bottom: 'data' top: 'a' ", conv, "} ") +
                          StrCat("layer { name: 'a2' bottom: 'a' top: 'a2' ", conv, "} ") +
                          StrCat("layer { name: 'b' bottom: 'depth' top: 'b' ", conv, "} ") +
                          "layer { name: 's' type: 'Eltwise' bottom: 'a2' bottom: 'b' top: 's' } ";
  const StateCheck check = Check(net);
  EXPECT_EQ(TopOf(check, "s:s"), (Shape{1, 4, 56, 56})) << check.error;
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{1, 3, 224, 224}));
  EXPECT_EQ(TopOf(check, "d:depth"), (Shape{1, 3, 111, 111}));
}

TEST(ShapeNeedsTest, LossesAndMatricesSayWhatTheyRead) {
  const std::string scores = InnerProduct("data", "fc", "num_output: 10");
  EXPECT_EQ(TopOf(Check(kTwoTops + scores + Loss("ManhattanLoss", "fc", "label")), "d:label"), (Shape{2, 10}));
  const std::string matrix =
      "layer { name: 'loss' type: 'InfogainLoss' bottom: 'fc' bottom: 'label' bottom: 'H' top: 'l' } ";
  EXPECT_EQ(TopOf(Check(kTwoTops + Rows("H", 1) + scores + matrix), "d_H:H"), (Shape{1, 1, 10, 10}));
  const std::string map =
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { num_output: 2 "
      "kernel_size: 1 } } ";
  const StateCheck weighted = Check(PythonData("data label weights") + map +
                                    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' bottom: "
                                    "'weights' top: 'loss' } ");
  EXPECT_EQ(TopOf(weighted, "d:weights"), (Shape{1, 1, 224, 224})) << weighted.error;
}

TEST(BottomShapesTest, ResidualNetsAreReadInTimeThatGrowsWithTheirLayers) {
  std::string net = PythonData("first x") +
                    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'u0' convolution_param { num_output: 4 "
                    "kernel_size: 1 } } ";
  for (int i = 0; i < 60; ++i) {
    net += StrCat("layer { name: 'v", i, "' type: 'Convolution' bottom: 'u", i, "' top: 'v", i,
                  "' convolution_param { num_output: 4 kernel_size: 3 pad: 1 } } layer { name: 'u", i + 1,
                  "' type: 'Eltwise' bottom: 'u", i, "' bottom: 'v", i, "' top: 'u", i + 1, "' } ");
  }
  net +=
      "layer { name: 'q' type: 'DummyData' top: 'q' dummy_data_param { shape { dim: [1, 4, 5, 5] } } } "
      "layer { name: 'odd' type: 'Eltwise' bottom: 'u60' bottom: 'q' top: 'odd' } ";
  EXPECT_EQ(TopOf(Check(net), "d:x"), (Shape{1, 3, 5, 5}));
}

TEST(BottomShapesTest, WindowsAreUndone) {
  const auto needs = [](const std::string& layer, const Shape& top, const Shape& known) {
    const NetParameter net = NetFromText(StrCat("layer { bottom: 'x' top: 'y' ", layer, "}"), "n");
    const Shape* const now = &known;
    return BottomsFor({.layer = net.layer(0), .top = top, .known = {&now, 1}});
  };
  const auto conv =
      needs("type: 'Convolution' convolution_param { kernel_size: [5, 3] stride: 2 pad: [1, 0] dilation: 2 }",
            {2, 7, 10, 11}, {2, 3, 99, 99});
  ASSERT_EQ(conv.size(), 1U);
  EXPECT_EQ(conv[0].shape, (Shape{2, 3, 25, 25}));  // 9 * 2 + 9 - 2, 10 * 2 + 5
  EXPECT_TRUE(conv[0].is_windowed);
  const auto pool = needs("type: 'Pooling' pooling_param { kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3 }",
                          {2, 7, 10, 11}, {2, 7, 1, 1});
  ASSERT_EQ(pool.size(), 1U);
  EXPECT_EQ(pool[0].shape, (Shape{2, 7, 20, 33}));
  EXPECT_FALSE(pool[0].is_windowed);
  EXPECT_TRUE(needs("type: 'Pooling' pooling_param { global_pooling: true }", {2, 7, 1, 1}, {2, 7, 9, 9}).empty());
  EXPECT_TRUE(
      needs("type: 'Convolution' convolution_param { kernel_size: [1, 1, 1] }", {2, 7, 1, 1}, {2, 7, 9, 9}).empty());
  // Each way to give a Reshape's dims: only those that the top agrees with.
  EXPECT_EQ(needs("type: 'Reshape' reshape_param { shape { dim: -1 } }", {6}, {6, 1, 4, 4})[0].shape, (Shape{6}));
  EXPECT_TRUE(needs("type: 'Reshape' reshape_param { shape { dim: [3, 2] } }", {6, 1}, {6, 1}).empty());
  EXPECT_TRUE(needs("type: 'Permute' permute_param { order: [0, 0] }", {6, 1}, {6, 1}).empty());
}

}  // namespace
}  // namespace moka

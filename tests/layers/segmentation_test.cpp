// Segmentation's layers and the forks' fields of common layers: shapes, choices and messages. Their values are in
// tests/golden/layers_segmentation.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "layers/net/catalog.h"
#include "one_layer.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

size_t BlobsOf(const std::string& type, const std::string& fields, Phase phase = TRAIN) {
  return BuildText(Layer({{2, 3, 4, 4}}, type, fields), phase).blobs.size();
}

// Returns the fault of an op's kernel after a run over these inputs.
std::string SegmentationFaultOf(const std::string& op, const Attributes& attributes, const std::vector<Shape>& shapes,
                                std::vector<std::vector<float>> values) {
  Graph graph(StandardCatalog());
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(graph.AddInput(StrCat("x", i), {DType::kFloat32, shapes[i], {}}));
  }
  const Node node = graph.AddNode(op, inputs, attributes, {});
  const std::vector<TensorType> input_types = graph.InputTypes(node);
  const std::vector<TensorType> output_types = graph.OutputTypes(node);
  std::vector<Tensor> in;
  for (size_t i = 0; i < shapes.size(); ++i) in.emplace_back(input_types[i], values[i].data());
  std::vector<Buffer> memory;
  std::vector<Tensor> out;
  for (const TensorType& type : output_types) {
    memory.push_back(Buffer::Allocate(type.Bytes()));
    out.emplace_back(type, memory.back().data());
  }
  const auto kernel =
      StandardCatalog().KernelsOf(op, DeviceKind::kCpu).front()->make({node, input_types, output_types});
  const Buffer scratch = Buffer::Allocate(kernel->scratch_bytes());
  kernel->Bind({in, out, scratch.data()});
  kernel->Run();
  EXPECT_TRUE(kernel->CanFault());
  std::string fault = kernel->TakeFault();
  EXPECT_EQ(kernel->TakeFault(), "") << "a fault is told once";
  return fault;
}

TEST(SegmentationTest, BnTellsItsDialectByFieldsThenParams) {
  EXPECT_EQ(BlobsOf("BN", "bn_param { shift_filler { value: 0.001 } }"), 2U);
  EXPECT_EQ(BlobsOf("BN", "bn_param { bn_mode: INFERENCE }"), 2U);
  EXPECT_EQ(BlobsOf("BN", "param { } param { }"), 2U);
  EXPECT_EQ(BlobsOf("BN", "param { } param { } bn_param { frozen: true }"), 4U);
  EXPECT_EQ(BlobsOf("BN", "param { } param { } param { } param { }"), 4U);
  EXPECT_EQ(BlobsOf("BN", ""), 4U);
  EXPECT_THAT(ErrorOf({{2, 3, 4, 4}}, "BN", "bn_param { bn_mode: LEARN momentum: 0.9 }"),
              HasSubstr("give the fields of one of them"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "BN", "top: \"z\""), HasSubstr("only SegNet's BN"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "BN", "bn_param { eps: 0 }"), HasSubstr("bn_param.eps must be above 0, found 0"));
  EXPECT_THAT(ErrorOf({{4}}, "BN", ""), HasSubstr("the bottom must be [N,C,..], found [4]"));
}

TEST(SegmentationTest, FrozenBnTrainsNothing) {
  for (const NetBlob& blob : BuildText(Layer({{2, 3, 4, 4}}, "BN", "bn_param { frozen: true }")).blobs) {
    EXPECT_EQ(blob.role, ParameterRole::kStatistic) << blob.name;
    EXPECT_EQ(blob.lr_mult, 0) << blob.name;
  }
}

TEST(SegmentationTest, BatchNormHasTheBlobsOfItsFork) {
  EXPECT_EQ(BlobsOf("BatchNorm", ""), 3U);
  EXPECT_EQ(BlobsOf("BatchNorm", "batch_norm_param { scale_bias: true }"), 5U);
  EXPECT_EQ(BlobsOf("BatchNorm", "batch_norm_param { bias_filler { value: 1 } }"), 5U);
  EXPECT_EQ(BlobsOf("BatchNorm", "batch_norm_param { filler { value: 1 } }"), 5U);
  EXPECT_EQ(BlobsOf("BatchNorm", "batch_norm_param { use_weight_bias: true bias_term: false }"), 4U);
  EXPECT_EQ(BlobsOf("BatchNorm", "batch_norm_param { use_weight_bias: false bias_term: true }"), 3U);
  EXPECT_THAT(ErrorOf({{2, 3, 4, 4}}, "BatchNorm", "batch_norm_param { scale_bias: true filler { value: 1 } }"),
              HasSubstr("give those of one"));
  EXPECT_THAT(ErrorOf({{4, 3, 4, 4}}, "BatchNorm", "batch_norm_param { stats_batch_size: 2 }"),
              HasSubstr("statistics are those of the whole batch of 4, stats_batch_size asks for 2"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "BatchNorm", "param { lr_mult: 1 } batch_norm_param { scale_bias: true }"),
              HasSubstr("the statistics of BatchNorm are not trained"));
  EXPECT_EQ(ErrorOf({{2, 3}}, "BatchNorm",
                    "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 1 } "
                    "batch_norm_param { scale_bias: true }"),
            "built");
}

TEST(SegmentationTest, UpsampleSizes) {
  EXPECT_EQ(ShapeOf({{1, 2, 3, 4}, {1, 2, 3, 4}}, "Upsample", ""), (Shape{1, 2, 6, 8}));
  EXPECT_EQ(ShapeOf({{1, 2, 3, 4}, {1, 2, 3, 4}}, "Upsample", "upsample_param { scale: 2 pad_out_h: true }"),
            (Shape{1, 2, 5, 8}));
  EXPECT_EQ(ShapeOf({{1, 2, 3, 4}, {1, 2, 3, 4}}, "Upsample", "upsample_param { upsample_h: 7 upsample_w: 9 }"),
            (Shape{1, 2, 7, 9}));
  EXPECT_EQ(ShapeOf({{1, 2, 3, 4}}, "Upsample", "upsample_param { stride: 3 }"), (Shape{1, 2, 9, 12}));
}

TEST(SegmentationTest, UpsampleMistakes) {
  const auto masked = [](const std::string& fields) {
    return ErrorOf({{1, 2, 3, 4}, {1, 2, 3, 4}}, "Upsample", "upsample_param { " + fields + " }");
  };
  EXPECT_THAT(masked("scale: 3 pad_out_w: true"), HasSubstr("which needs a scale of 2, found 3"));
  EXPECT_THAT(masked("scale_h: 2"), HasSubstr("give scale, or both scale_h and scale_w"));
  EXPECT_THAT(masked("upsample_h: 4"), HasSubstr("give both upsample_h and upsample_w, or neither"));
  EXPECT_THAT(masked("scale: 1"), HasSubstr("upsample_param.scale must be above 1, found 1"));
  EXPECT_THAT(masked("stride: 2"), HasSubstr("stride belongs to the Upsample of one bottom"));
  EXPECT_THAT(ErrorOf({{1, 2, 3, 4}, {1, 2, 3, 3}}, "Upsample", ""),
              HasSubstr("the mask must have the bottom's shape, found [1,2,3,3] and [1,2,3,4]"));
  EXPECT_THAT(ErrorOf({{1, 2, 3, 4}}, "Upsample", "upsample_param { scale_h: 2 scale_w: 2 }"),
              HasSubstr("these fields need a mask as second bottom"));
  EXPECT_THAT(ErrorOf({{1, 2}}, "Upsample", ""), HasSubstr("the bottom must be [N,C,H,W], found [1,2]"));
}

TEST(SegmentationTest, WhatPoolingTookGoesBackToItsPlace) {
  const BuiltNet net = BuildText(InputText("x", {1, 1, 2, 4}) + R"(
    layer { name: "p" type: "Pooling" bottom: "x" top: "p" top: "mask" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "u" type: "Upsample" bottom: "p" bottom: "mask" top: "y" upsample_param { scale: 2 } })");
  EXPECT_THAT(TopValues(net, {{"x", {1, 5, 2, 3, 4, 0, 9, 8}}}, "y"), ElementsAre(0, 5, 0, 0, 0, 0, 9, 0));
}

TEST(SegmentationTest, AMaskOutsideThePlaneIsAFault) {
  const auto fault = [](std::vector<float> mask) {
    return SegmentationFaultOf("unpool_max", {{"size", Ints{2, 2}}}, {{1, 1, 1, 2}, {1, 1, 1, 2}},
                               {{1, 2}, std::move(mask)});
  };
  EXPECT_EQ(fault({0, 3}), "");
  EXPECT_EQ(fault({0, 4}),
            "mask value 4 at index 1 is no place of a plane of 2x2; the pooling that made the mask had another size");
  EXPECT_THAT(fault({std::nanf(""), 0}), HasSubstr("mask value nan at index 0"));
}

TEST(SegmentationTest, LabelsOutsideTheClassesAreFaults) {
  const auto fault = [](const std::string& op, const Attributes& attributes, std::vector<float> label) {
    return SegmentationFaultOf(op, attributes, {{2, 3}, {2}}, {{0, 1, 2, 3, 4, 5}, std::move(label)});
  };
  const Attributes ignoring{{"has_ignore", true}, {"ignore_label", int64_t{255}}};
  EXPECT_EQ(fault("softmax_losses", ignoring, {255, 2}), "");
  EXPECT_EQ(fault("softmax_losses", ignoring, {0, 3}), "label 3 at index 1 is not a class from 0 to 2");
  const Attributes leaving_out{{"ignore", Ints{255}}};
  EXPECT_EQ(fault("class_counts", leaving_out, {255, 2}), "");
  EXPECT_EQ(fault("class_counts", leaving_out, {-1, 2}), "label -1 at index 0 is not a class from 0 to 2");
}

TEST(SegmentationTest, UnpoolingSizesAndMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 2, 3, 3}}, "Unpooling", "unpooling_param { " + fields + " }");
  };
  EXPECT_EQ(ShapeOf({{1, 2, 3, 3}}, "Unpooling", "unpooling_param { kernel_size: 2 stride: 2 }"), (Shape{1, 2, 7, 7}));
  EXPECT_EQ(ShapeOf({{1, 2, 3, 3}}, "Unpooling", "unpooling_param { kernel_size: 2 stride: 2 unpool_size: 6 }"),
            (Shape{1, 2, 6, 6}));
  EXPECT_THAT(error("stride: 2"), HasSubstr("kernel_size (or kernel_h and kernel_w) must be given"));
  EXPECT_THAT(error("kernel_h: 2"), HasSubstr("give kernel_size, or both of its _h and _w fields"));
  EXPECT_THAT(error("kernel_size: 2 pad: 1"), HasSubstr("a pad must be 0"));
  EXPECT_THAT(error("kernel_size: 2 stride: 4 unpool_size: 6"),
              HasSubstr("the last window would begin at 8, outside an unpooled size of 6"));
  EXPECT_THAT(ErrorOf({{1, 2, 3, 3}, {1, 2, 3, 3}}, "Unpooling", "unpooling_param { unpool: AVE kernel_size: 2 }"),
              HasSubstr("only unpool MAX takes a mask"));
}

TEST(SegmentationTest, InterpTakesAxesThatAreMissingForOne) {
  const BuiltNet net =
      BuildText(InputText("x", {2}) +
                R"(layer { name: "i" type: "Interp" bottom: "x" top: "y" interp_param { height: 1 width: 3 } })");
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{2, 1, 1, 3}));
  EXPECT_EQ(TopValues(net, {{"x", {4, 7}}}, "y"), (std::vector<double>{4, 4, 4, 7, 7, 7}));
}

TEST(SegmentationTest, InterpMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{1, 2, 3, 3}}, "Interp", "interp_param { " + fields + " }");
  };
  EXPECT_THAT(error(""), HasSubstr("give zoom_factor, shrink_factor, height and width, or a second bottom"));
  EXPECT_THAT(error("zoom_factor: 0"), HasSubstr("interp_param.zoom_factor must be at least 1, found 0"));
  EXPECT_THAT(error("height: 3 width: -1"), HasSubstr("axis 3 of the top would have -1 pixels"));
  EXPECT_THAT(error("zoom_factor: 2 pad_beg: 1"), HasSubstr("a pad must be at most 0 (it crops), found 1"));
  EXPECT_THAT(error("zoom_factor: 2 pad_beg: -2 pad_end: -1"), HasSubstr("crop 3 of the 3 pixels"));
  EXPECT_THAT(ErrorOf({{1, 2, 3, 3, 3}}, "Interp", "interp_param { zoom_factor: 2 }"), HasSubstr("must be [N,C,H,W]"));
}

TEST(SegmentationTest, DataFedTops) {
  const BuiltNet net = BuildText(
      "layer { name: \"d\" type: \"DenseImageData\" top: \"data\" top: \"label\" }"
      "layer { name: \"s\" type: \"ImageSegData\" top: \"image\" top: \"segments\" }"
      "layer { name: \"m\" type: \"ImageLabelmapData\" top: \"picture\" top: \"map\" }"
      "layer { name: \"w\" type: \"WindowSegData\" top: \"window\" top: \"part\" }");
  EXPECT_EQ(net.data.size(), 4U);
  EXPECT_EQ(net.graph.shape(net.tops.at("data")), (Shape{4, 3, 8, 8}));
  EXPECT_THAT(ErrorsOf("layer { name: \"d\" type: \"DenseImageData\" top: \"data\" }"),
              HasSubstr("takes 2 tops, found 1"));
}

TEST(SegmentationTest, SoftmaxWithLossMistakes) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{4, 3}, {4}}, "SoftmaxWithLoss", "loss_param { " + fields + " }");
  };
  EXPECT_THAT(error("weight_by_label_freqs: true class_weighting: 1"),
              HasSubstr("class_weighting is given 1 times for 3 classes"));
  EXPECT_EQ(error("class_weighting: 1"), "built");  // not in force
  EXPECT_THAT(error("label_smoothing: 1"), HasSubstr("label_smoothing must be in [0, 1), found 1"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}, {3}}, "SoftmaxWithLoss", ""),
              HasSubstr("there must be a weight for each of the 4 labels, found [3]"));
}

TEST(SegmentationTest, SoftmaxWithLossOfPartsOfClasses) {
  const auto error = [](const std::string& fields) {
    return ErrorOf({{4, 3}, {4, 3}}, "SoftmaxWithLoss", "loss_param { " + fields + " }");
  };
  EXPECT_EQ(error(""), "built");
  EXPECT_THAT(error("ignore_label: 1"), HasSubstr("bottom \"b\" holds parts of classes, which cannot be ignored"));
  EXPECT_THAT(error("weight_by_label_freqs: true class_weighting: 1 class_weighting: 1 class_weighting: 1"),
              HasSubstr("which have no label's weight"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}, {4}}, "SoftmaxWithLoss", ""), HasSubstr("which take no weights"));
  EXPECT_EQ(ErrorOf({{4, 1}, {4, 1}}, "SoftmaxWithLoss", "loss_param { ignore_label: 0 }"), "built");  // labels
}

TEST(SegmentationTest, ForksOfConvolutionAndScale) {
  const auto depthwise = [](const std::string& type, const std::string& fields) {
    return ErrorOf({{1, 4, 5, 5}}, type, "convolution_param { kernel_size: 3 " + fields + " }");
  };
  EXPECT_EQ(depthwise("ConvolutionDepthwise", "num_output: 4 group: 4"), "built");
  EXPECT_THAT(depthwise("ConvolutionDepthwise", "num_output: 8"),
              HasSubstr("a top channel and a group for each of the bottom's 4 channels, found num_output 8"));
  EXPECT_THAT(depthwise("ConvolutionDepthwise", "num_output: 4 group: 3"), HasSubstr("channels, found group 3"));
  EXPECT_THAT(depthwise("DepthwiseConvolution", "num_output: 4"),
              HasSubstr("needs a group for each of the bottom's 4 channels, found 1"));
  EXPECT_THAT(depthwise("Convolution", "num_output: 4 negative_slope: 0.1"),
              HasSubstr("negative_slope needs relu: true"));
  EXPECT_THAT(ErrorOf({{1, 4}}, "Scale", "scale_param { min_value: 0.5 }"),
              HasSubstr("scale_param.min_value bounds a parameter between steps, which is not part of Moka"));
}

TEST(SegmentationTest, SegmentationEvaluateGivesCounts) {
  const BuiltNet net = BuildText(
      Layer({{1, 3, 1, 4}, {1, 1, 1, 4}}, "SegmentationEvaluate", "segmentation_evaluate_param { ignore_label: 255 }"));
  // Predictions 0 1 2 2, labels 0 2 2 ignored.
  const std::vector<double> scores{9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 9};
  EXPECT_THAT(TopValues(net, {{"a", scores}, {"b", {0, 2, 2, 255}}}, "y"), ElementsAre(1, 0, 1, 1, 0, 2, 1, 1, 1));
  EXPECT_THAT(ErrorOf({{1, 1, 2, 2}, {1, 1, 2, 2}}, "SegmentationEvaluate"),
              HasSubstr("the scores must be [N,C,..] of at least 2 classes, found [1,1,2,2]"));
}

TEST(SegmentationTest, DiceOfPerfectScoresIsZeroAndOfIgnoredLabelsToo) {
  const auto dice = [](const std::vector<double>& scores, const std::vector<double>& label) {
    const BuiltNet net =
        BuildText(Layer({{1, 2, 1, 3}, {1, 1, 1, 3}}, "DiceLoss", "dice_loss_param { ignore_label: 7 }"));
    return TopValues(net, {{"a", scores}, {"b", label}}, "y")[0];
  };
  EXPECT_NEAR(dice({50, -50, 50, -50, 50, -50}, {0, 1, 0}), 0, 1e-12);
  EXPECT_EQ(dice({1, 2, 3, 4, 5, 6}, {7, 7, 7}), 0);
  // Class 0 alone occurs: p = 1/2 at its one pixel, and (2/2 + 1) / (1/2 + 1 + 1) = 0.8.
  EXPECT_NEAR(dice({0, 0, 0, 0, 9, 9}, {0, 7, 7}), 0.2, 1e-12);
  EXPECT_THAT(ErrorOf({{1, 2, 1, 3}, {1, 1, 1, 3}}, "DiceLoss", "dice_loss_param { smooth: 0 }"),
              HasSubstr("dice_loss_param.smooth must be above 0, found 0"));
}

TEST(SegmentationTest, BorderWeightsAreLargeBetweenNearObjects) {
  // Two objects of label 1, two pixels apart; the pixel beyond the second sees both at distances 1 and 5.
  const std::vector<double> label{1, 0, 0, 1, 0, 2};
  const BuiltNet net =
      BuildText(Layer({{1, 1, 1, 6}}, "BorderWeight",
                      "border_weight_param { class_weight: 0.5 class_weight: 2 sigma: 2 w0: 8 ignore_label: 2 }"));
  const std::vector<double> w = TopValues(net, {{"a", label}}, "y");
  const auto term = [](double d) { return 8 * std::exp(-d * d / 8); };
  const std::vector<double> expected{2, 0.5 + term(3), 0.5 + term(3), 2, 0.5 + term(5), 0};
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], expected[i], 1e-12) << i;
  EXPECT_THAT(ErrorOf({{1, 1, 4, 4}}, "BorderWeight", "border_weight_param { class_weight: -1 }"),
              HasSubstr("border_weight_param.class_weight[0] must not be negative, found -1"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 4}}, "BorderWeight"), HasSubstr("the labels must be [N,1,H,W], found [1,2,4,4]"));
  EXPECT_THAT(ErrorOf({{1, 1, 4, 4}}, "BorderWeight", "border_weight_param { sigma: 65 }"),
              HasSubstr("border_weight_param.sigma must be above 0 and at most 64, found 65"));
}

TEST(SegmentationTest, RandScoreFallsWhenRegionsRunTogether) {
  const auto scores = [](const std::vector<double>& inside, const std::vector<double>& label) {
    std::vector<double> x;
    for (const double i : inside) x.push_back(i > 0 ? 0 : 9);
    for (const double i : inside) x.push_back(i > 0 ? 9 : 0);
    const BuiltNet net = BuildText(
        Layer({{1, 2, 1, 7}, {1, 1, 1, 7}}, "RandScore", "rand_score_param { least_pixels: 2 }", {"y", "m", "s"}));
    std::vector<double> found;
    for (const char* top : {"y", "m", "s"}) found.push_back(TopValues(net, {{"a", x}, {"b", label}}, top)[0]);
    return found;
  };
  const std::vector<double> label{1, 1, 1, 0, 1, 1, 1};
  EXPECT_THAT(scores({1, 1, 1, 0, 1, 1, 1}, label), ElementsAre(1, 1, 1));
  // A wide border belongs to the nearest regions.
  EXPECT_THAT(scores({1, 1, 0, 0, 0, 1, 1}, label), ElementsAre(1, 1, 1));
  // One region for two of three pixels: sum n^2 = 18, 36 predicted.
  const std::vector<double> merged = scores({1, 1, 1, 1, 1, 1, 1}, label);
  EXPECT_NEAR(merged[0], 2.0 * 18 / (18 + 36), 1e-12);
  EXPECT_NEAR(merged[1], 0.5, 1e-12);
  EXPECT_NEAR(merged[2], 1, 1e-12);
  // The right object cut at its first pixel, which is too small a region and joins the left one over the border.
  EXPECT_THAT(scores({1, 1, 1, 0, 1, 0, 0}, label), ElementsAre(0.5 * 4 / 3, 0.5, 1));
  EXPECT_THAT(ErrorOf({{1, 2, 1, 7}, {1, 1, 1, 7}}, "RandScore", "rand_score_param { object_label: 2 }"),
              HasSubstr("rand_score_param.object_label must be a class from 0 to 1, found 2"));
}

}  // namespace
}  // namespace moka

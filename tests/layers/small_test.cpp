// Small layers and losses of single papers' nets: what the goldens do not cover, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "one_layer.h"
#include "proto/nets/filler.h"
#include "proto/upgrade/upgrade.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string PythonLayerText(const std::string& module, const std::string& layer, const std::string& text = "") {
  return "type: \"Python\" python_param { module: \"" + module + "\" layer: \"" + layer + "\" param_str: \"" + text +
         "\" }";
}

// An affine map of the whole picture, by itself.
TEST(SmallTest, TheIdentityMapGivesThePictureItself) {
  const BuiltNet net = BuildText(Layer({{1, 1, 2, 3}, {1, 6}}, "SpatialTransformer"));
  const Feeds feeds{{"a", {1, 2, 3, 4, 5, 6}}, {"b", {1, 0, 0, 0, 1, 0}}};
  EXPECT_THAT(TopValues(net, feeds, "y"), ElementsAre(1, 2, 3, 4, 5, 6));
  // Half a picture to the right: what is read there is outside.
  const Feeds moved{{"a", {1, 2, 3, 4, 5, 6}}, {"b", {1, 0, 0, 0, 1, 4}}};
  EXPECT_THAT(TopValues(net, moved, "y"), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(SmallTest, TransformersThatDoNotFit) {
  EXPECT_THAT(ErrorOf({{2, 1, 4, 4}, {2, 5}}, "SpatialTransformer"),
              HasSubstr("\"b\" must hold 6 numbers for each of the 2 pictures, found [2,5]"));
  EXPECT_THAT(ErrorOf({{2, 1, 4, 4}, {2, 6}}, "SpatialTransformer", "st_param { theta_1_1: 1 }"),
              HasSubstr("must hold 5 numbers"));
  EXPECT_THAT(ErrorOf({{2, 4, 4}, {2, 6}}, "SpatialTransformer"), HasSubstr("must be [N,C,H,W], found [2,4,4]"));
  EXPECT_THAT(ErrorOf({{2, 1, 4, 4}, {2, 6}}, "SpatialTransformer", "st_param { output_W: 0 }"),
              HasSubstr("must be from 1 to 1048576, found 4 and 0"));
  EXPECT_THAT(ErrorOf({{2, 1, 4, 4}, {2, 6}}, "SpatialTransformer", "st_param { transform_type: \"tps\" }"),
              HasSubstr("must be \"affine\", found \"tps\""));
  EXPECT_THAT(ErrorOf({{2, 1, 4, 4}}, "SpatialTransformer", "st_param { }"), HasSubstr("two bottoms"));
  EXPECT_THAT(ErrorOf({{2, 1, 4, 4}, {2, 6}}, "SpatialTransformer", "spatialtransformer_param { }"),
              HasSubstr("belongs to a layer with one bottom"));
  EXPECT_THAT(ErrorOf({{2, 1, 4}}, "SpatialTransformer"), HasSubstr("must be [N,C,H,W], found [2,1,4]"));
}

TEST(SmallTest, SequencesOfRowsBecomeMapsAgain) {
  const std::string format =
      "layer { name: \"f\" type: \"SRNNFormat\" bottom: \"a\" top: \"s\" top: \"cont\" top: \"h\" }";
  const std::string back =
      "layer { name: \"u\" type: \"SRNNFormat\" bottom: \"s\" bottom: \"h\" top: \"y\" propagate_down: true "
      "propagate_down: false srnnformat_param { operation: UNFORMAT } }";
  const BuiltNet net = BuildText(InputText("a", {2, 2, 3, 2}) + format + back);
  std::vector<double> x;
  for (int i = 0; i < 24; ++i) x.push_back(i);
  EXPECT_EQ(TopValues(net, {{"a", x}}, "y"), x);
  EXPECT_EQ(net.graph.shape(net.tops.at("s")), Shape({2, 6, 2}));
  const std::string fed = InputText("h", {1});
  EXPECT_THAT(ErrorsOf(InputText("s", {2, 6, 2}) + fed + back),
              HasSubstr("must be the third top of an SRNNFormat layer"));
  EXPECT_THAT(ErrorsOf(InputText("a", {2, 2, 4, 2}) + format + InputText("t", {2, 6, 2}) +
                       "layer { name: \"u\" type: \"SRNNFormat\" bottom: \"t\" bottom: \"h\" top: \"y\" "
                       "srnnformat_param { operation: UNFORMAT } }"),
              HasSubstr("the 6 streams of [2,6,2] are not a multiple of the 4 rows"));
  EXPECT_THAT(ErrorOf({{2, 2, 3, 2}}, "SRNNFormat"), HasSubstr("takes 1 bottom and 3 tops, found 1 and 1"));
  EXPECT_THAT(ErrorOf({{2, 6, 2}}, "SRNNFormat", "srnnformat_param { operation: UNFORMAT }"),
              HasSubstr("takes 2 bottoms and 1 top"));
}

TEST(SmallTest, PartsThatDoNotLieInThePicture) {
  EXPECT_THAT(ErrorOf({{1, 1, 4, 4}}, "Division", "division_param { width: 3 height: 2 xcoord: 2 ycoord: 0 }"),
              HasSubstr("part 0, 2 x 3 from row 0 and column 2 on, does not lie in the picture [1,1,4,4]"));
  EXPECT_THAT(ErrorOf({{1, 1, 4, 4}}, "Division", "division_param { width: 3 height: 2 xcoord: 0 }"),
              HasSubstr("once for each of the 1 tops, found 1 and 0"));
  EXPECT_THAT(ErrorOf({{1, 1, 4, 4}}, "Division", "division_param { xcoord: 0 ycoord: 0 }"),
              HasSubstr("width and height must be given"));
  const DimLists two = {{1, 1, 2, 3}, {1, 1, 2, 2}};
  const auto error = [&](const std::string& fields) {
    return ErrorOf(two, "Combination", "combination_param { " + fields + " }");
  };
  EXPECT_THAT(error("xcoord: 0 xcoord: 4 ycoord: 0 ycoord: 0"),
              HasSubstr("part 1 [1,1,2,2] cannot begin at row 0 and column 4"));
  EXPECT_THAT(error("xcoord: 0 xcoord: 0 ycoord: 0 ycoord: 2"), HasSubstr("part 1"));
  EXPECT_THAT(error("xcoord: 0 xcoord: 0 ycoord: 0 ycoord: 3"), HasSubstr("part 1"));
  EXPECT_THAT(error("xcoord: 0 ycoord: 0"), HasSubstr("once for each of the 2 bottoms, found 1 and 1"));
  EXPECT_THAT(ErrorOf({{1, 1, 2, 3}, {1, 2, 2, 2}}, "Combination",
                      "combination_param { xcoord: 0 xcoord: 3 ycoord: 0 ycoord: 0 }"),
              HasSubstr("of one N and C"));
}

TEST(SmallTest, FieldsThatAreRefused) {
  EXPECT_THAT(ErrorOf({{2, 3}}, "BReLU", "brelu_param { minval: 0 }"), HasSubstr("must give minval and maxval"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "BReLU", "brelu_param { minval: 1 maxval: 0 }"),
              HasSubstr("minval 1 is above maxval 0"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "L2Norm", "l2norm_param { eps: -1 }"), HasSubstr("eps must not be negative, found -1"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "OutputDecay", "output_decay_param { output_decay: 1 }"),
              HasSubstr("must be \"L1\" or \"L2\", found \"\""));
  EXPECT_THAT(ErrorOf({{2, 3}}, "OutputDecay", "output_decay_param { regularization_type: \"L1\" }"),
              HasSubstr("output_decay must be given"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Scale", "param { lr_mult: 1 } scale_param { max_value: 1 }"),
              HasSubstr("scale_param.max_value bounds a parameter between steps"));
  EXPECT_THAT(ErrorOf({{2, 3}, {3}}, "Scale", "param { lr_mult: 0 } scale_param { max_value: 1 }"),
              HasSubstr("the scale is bottom 1"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2, 3}, {3}}, "Eltwise", "eltwise_param { coeff_blob: true }"),
              HasSubstr("a factor for each of the 2 images of each of the 2 others, found [3]"));
  EXPECT_THAT(ErrorOf({{2, 3}, {2}}, "Eltwise", "eltwise_param { coeff_blob: true operation: MAX }"),
              HasSubstr("only for operation SUM"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Dropout", "dropout_param { dropout_ratio: 1.25 }"),
              HasSubstr("must be in [0, 1], found 1.25"));
  EXPECT_THAT(ErrorOf({{3, 2, 2}, {3, 2}}, "LSTM", "recurrent_param { num_output: 3 rnn_actvfunc: \"ReLU\" }"),
              HasSubstr("must be \"TanH\", found \"ReLU\""));
  EXPECT_THAT(ErrorOf({{3, 2, 2}, {3, 2}}, "RNN", "recurrent_param { num_output: 3 static_input_only_start: true }"),
              HasSubstr("belong to LSTM"));
  EXPECT_THAT(ErrorOf({{2, 3, 2, 2}}, "BN", "bn_param { scale_filler { value: 1 } decay: 0.1 }"),
              HasSubstr("decay, of running statistics that are not used"));
  EXPECT_THAT(ErrorOf({{1, 2, 4, 4}, {1, 2, 4, 4}, {1, 31, 4, 4}}, "MultiStageMeanfieldAU3"),
              HasSubstr("the image must be [1,30,4,4]"));
}

TEST(SmallTest, LossesThatDoNotFit) {
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "CenterLoss", "center_loss_param { num_output: 2 type: COSINE margin: 1 }"),
              HasSubstr("must be above -1 and below 1, found 1"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "CenterLoss", "center_loss_param { num_output: 2 eps: 0 }"),
              HasSubstr("eps must be above 0, found 0"));
  EXPECT_THAT(ErrorOf({{4, 3}, {5}}, "SharedCenterLoss", "shared_center_loss_param { num_output: 2 }"),
              HasSubstr("must have 4 labels, found [5]"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "SharedCenterLoss"),
              HasSubstr("num_output, the number of classes, must be given"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "InterClass"), HasSubstr("num_output, the number of classes, must be given"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "InterClass",
                      "inter_class_param { num_output: 2 alpha_start_iter: 5 alpha_stepvalue: 5 }"),
              HasSubstr("must rise from above alpha_start_iter on: 5 follows 5"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4}}, "MarginInnerProduct", "margin_inner_product_param { num_output: 2 iter_size: 2 }"),
              HasSubstr("only an iter_size of 1 is part of Moka, found 2"));
  EXPECT_THAT(ErrorOf({{4, 2, 3, 3}, {4, 2, 3, 3}}, "KLDivLoss"), HasSubstr("must be [N,1,H,W], found [4,2,3,3]"));
  EXPECT_THAT(ErrorOf({{4, 1, 3, 3}, {4, 1, 3, 2}}, "NSSLoss"), HasSubstr("must have one shape"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 2}}, "ManhattanLoss"), HasSubstr("must have one batch and one count"));
  EXPECT_THAT(ErrorOf({{4, 3}, {4, 3}, {4, 2}}, "EuclideanLoss6"), HasSubstr("must have one batch and one count"));
  EXPECT_THAT(ErrorOf({{4, 3}, {5}}, "WeightedSoftmaxWithLoss"), HasSubstr("5"));
  EXPECT_THAT(
      ErrorOf({{4, 3}, {4, 3}, {4}, {4}}, "ContrastiveLoss", "contrastive_loss_param { legacy_version: false }"),
      HasSubstr("a fourth bottom belongs to the version"));
  EXPECT_THAT(
      ErrorOf({{4, 3}, {4, 3}, {4}}, "MineContrastiveLoss", "mine_contrastive_loss_param { legacy_version: true }"),
      HasSubstr("has no legacy_version"));
}

// Where the classifier's layer is there the rows count as unit, whatever their length.
TEST(SmallTest, InterClassSeesUnitRowsBesideAMarginLayer) {
  const std::string margin =
      "layer { name: \"fc\" type: \"MarginInnerProduct\" bottom: \"a\" bottom: \"b\" top: \"fc\" param { name: \"w\" } "
      "margin_inner_product_param { num_output: 2 } }";
  const std::string apart =
      "layer { name: \"l\" type: \"InterClass\" bottom: \"a\" bottom: \"b\" top: \"y\" param { name: \"w\" } "
      "inter_class_param { num_output: 2 } }";
  const std::string inputs = InputText("a", {1, 2}) + InputText("b", {1});
  const Feeds feeds{{"a", {1, 1}}, {"b", {0}}, {"w", {3, 0, 0, 5}}};
  // One item of class 0, two rows: (0 + |w_1 - w_0|^2) / 2.
  EXPECT_THAT(TopValues(BuildText(inputs + margin + apart), feeds, "y"), ElementsAre(testing::DoubleNear(1, 1e-9)));
  EXPECT_THAT(TopValues(BuildText(inputs + apart), feeds, "y"), ElementsAre(testing::DoubleNear(17, 1e-9)));
}

TEST(SmallTest, TripletsAreSampledFromPairsOfOneLabel) {
  const std::string text = OneLayer({{"a", {4, 1}}, {"b", {4}}}, {"x", "p", "n"},
                                    PythonLayerText("tripletsample_layer", "TripletSampleLayer"));
  const BuiltNet net = BuildText(text);
  ASSERT_EQ(net.graph.shape(net.tops.at("x")), Shape({12, 1}));
  // Labels 0 0 1 2: pairs 0-1, 1-0, and items 2 and 3 with themselves.
  const Feeds feeds{{"a", {1, 2, 10, 20}}, {"b", {0, 0, 1, 2}}, {"random_key", {5}}};
  const std::vector<double> anchors = TopValues(net, feeds, "x");
  const std::vector<double> positives = TopValues(net, feeds, "p");
  const std::vector<double> negatives = TopValues(net, feeds, "n");
  EXPECT_THAT(std::vector<double>(anchors.begin(), anchors.begin() + 4), ElementsAre(1, 2, 10, 20));
  EXPECT_THAT(std::vector<double>(positives.begin(), positives.begin() + 4), ElementsAre(2, 1, 10, 20));
  EXPECT_GE(negatives[0], 10);
  EXPECT_GE(negatives[1], 10);
  EXPECT_NE(negatives[2], 10);
  for (size_t i = 4; i < 12; ++i) EXPECT_EQ(anchors[i] + positives[i] + negatives[i], 0);
  // If there is one label only, the negatives are of it too. A batch of one has one triplet.
  const Feeds same{{"a", {1, 2, 10, 20}}, {"b", {3, 3, 3, 3}}, {"random_key", {5}}};
  EXPECT_EQ(TopValues(net, same, "x")[11], 20);
  EXPECT_THAT(TopValues(BuildText(OneLayer({{"a", {1, 1}}, {"b", {1}}}, {"x", "p", "n"},
                                           PythonLayerText("tripletsample_layer", "TripletSampleLayer"))),
                        {{"a", {7}}, {"b", {0}}, {"random_key", {5}}}, "n"),
              ElementsAre(7));
}

TEST(SmallTest, TripletLayersThatDoNotFit) {
  const auto error = [](const std::vector<NamedInput>& inputs, const std::string& fields, size_t tops) {
    const std::vector<std::string> names{"x", "p", "n"};
    return OneLayerErrors(inputs, {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(tops)}, fields);
  };
  EXPECT_THAT(error({{"a", {2, 3}}}, PythonLayerText("tripletselectlayer", "TripletSelectLayer"), 3),
              HasSubstr("at least 3 rows, found [2,3]"));
  EXPECT_THAT(error({{"a", {2, 3, 2}}}, PythonLayerText("norm2layer", "Norm2Layer"), 1),
              HasSubstr("must be rows [N,D]"));
  EXPECT_THAT(error({{"a", {4, 3}}, {"b", {3}}}, PythonLayerText("tripletsample_layer", "TripletSampleLayer"), 3),
              HasSubstr("a label for each of the 4 items, found [3]"));
  EXPECT_THAT(error({{"a", {4097, 1}}, {"b", {4097}}}, PythonLayerText("tripletsample_layer", "TripletSampleLayer"), 3),
              HasSubstr("at most 4096 items, found 4097"));
  EXPECT_THAT(
      error({{"a", {2, 3}}, {"b", {2, 3}}, {"c", {2, 3}}}, PythonLayerText("tripletloss_layer", "TripletLayer"), 1),
      HasSubstr("must give 'margin'"));
}

TEST(SmallTest, PatchesThatHaveNoCenter) {
  const auto error = [](const std::vector<int64_t>& shape, const std::string& layer, const std::string& text = "") {
    return OneLayerErrors({{"a", shape}, {"b", shape}}, {"y"}, PythonLayerText("pyloss", layer, text));
  };
  EXPECT_THAT(error({1, 3, 4, 4}, "SSIM"), HasSubstr("with an odd W up to 1024, found [1,3,4,4]"));
  EXPECT_THAT(error({1, 3, 5, 3}, "MSSSIM"), HasSubstr("found [1,3,5,3]"));
  EXPECT_THAT(error({1, 3, 5, 5}, "SSIM", "{'sigma': (1, 2)}"), HasSubstr("'sigma' of SSIM is one number"));
  EXPECT_THAT(error({1, 3, 5, 5}, "MSSSIM", "{'sigma': (1, 0)}"), HasSubstr("'sigma' must be above 0, found 0"));
}

// Three features are an image; more of them make another field.
TEST(SmallTest, FeaturesGuideAFieldAsAnImageDoes) {
  const std::string fields =
      "{ num_iterations: 2 theta_alpha: 3 theta_beta: 0.5 theta_gamma: 2 spatial_filter_weight: 3 }";
  Feeds feeds;
  for (const char* name : {"a", "b", "c"}) {
    for (int i = 0; i < 18; ++i) feeds[name].push_back(0.125 * ((i * 7 + name[0]) % 11));
  }
  feeds["a"].resize(12);
  feeds["b"].resize(12);
  feeds["l/0"] = feeds["l/1"] = {3, 0, 0, 2};
  feeds["l/2"] = {-1, 0, 0, -1};
  const auto values = [&](int64_t channels, const std::string& type, const std::string& field) {
    const BuiltNet net =
        BuildText(Layer({{1, 2, 2, 3}, {1, 2, 2, 3}, {1, channels, 2, 3}}, type, field + " " + fields));
    Feeds given = feeds;
    given["c"].resize(static_cast<size_t>(6 * channels), 0.5);
    return TopValues(net, given, "y");
  };
  const std::vector<double> image = values(3, "MultiStageMeanfield", "multi_stage_meanfield_param");
  EXPECT_EQ(values(3, "MultiStageMeanfieldAU3", "multi_stage_meanfield_au3_param"), image);
  const std::vector<double> features = values(16, "MultiStageMeanfieldAU3", "multi_stage_meanfield_au3_param");
  EXPECT_NE(features, image);
  EXPECT_THAT(features, testing::Each(testing::Truly([](double v) { return std::isfinite(v); })));
}

TEST(SmallTest, NegativeAlphaOfTheGradientScalerIsTaken) {
  EXPECT_EQ(ErrorOf({{2, 3}}, "GradientScaler", "gradient_scaler_param { alpha: -0.5 max_iter: 5000 }"), "built");
}

TEST(SmallTest, FillersReadTheirNumbersFromAFile) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "small_test_filler.txt";
  std::ofstream(path) << "1 0.5\n-2e-1 7\n";
  FillerParameter filler;
  filler.set_type("file");
  std::vector<float> values(3);
  EXPECT_THROW(FillBlob(filler, Shape{3}, 1, "w", values), Error);
  filler.set_file(path.string());
  FillBlob(filler, Shape{3}, 1, "w", values);
  EXPECT_THAT(values, ElementsAre(1, 0.5F, -0.2F));
  std::vector<float> more(5);
  EXPECT_THROW(FillBlob(filler, Shape{5}, 1, "w", more), Error);
  filler.set_file(path.string() + ".gone");
  EXPECT_THROW(FillBlob(filler, Shape{3}, 1, "w", values), Error);
  filler.set_type("constant");
  EXPECT_THROW(CheckFiller(filler, Shape{3}), Error);
  std::filesystem::remove(path);
}

// A net that ran as several processes is one here: its layers are the ordinary ones.
TEST(SmallTest, LayersOfSeveralProcessesAreOnesOfOne) {
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::CONVOLUTION_DATA), "Convolution");
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::INNER_PRODUCT_ALL), "InnerProduct");
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::BN_DATA), "BN");
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::SOFTMAX_LOSS_DATA), "SoftmaxWithLoss");
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::GATHER), "Gather");
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::GRADIENT_SCALER), "GradientScaler");
  EXPECT_EQ(LayerTypeOf(V1LayerParameter::MINE_CONTRASTIVE_LOSS), "MineContrastiveLoss");
  // Its normalisation adds less to the variance than SegNet's of the same blobs.
  NetParameter net;
  net.add_layers()->set_type(V1LayerParameter::BN_DATA);
  EXPECT_TRUE(UpgradeNet(net, "net.prototxt"));
  EXPECT_EQ(net.layer(0).type(), "BN");
  EXPECT_EQ(net.layer(0).bn_param().var_eps(), 1e-10F);
}

}  // namespace
}  // namespace moka

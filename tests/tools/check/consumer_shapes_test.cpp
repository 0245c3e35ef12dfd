// Shapes of data tops from the layers that read them and from the list of pictures, by way of the check of a net.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "tests/tools/nets/looked_at.h"
#include "tools/check/net_check.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(ConsumerShapesTest, ALabelHasThePredictionsShape) {
  EXPECT_EQ(TopOf(Check(std::string(kTwoTops) + kPredictions + Loss("EuclideanLoss", "fc", "label")), "d:label"),
            (Shape{2, 10}));
  // The first guess stays where it fits.
  EXPECT_EQ(TopOf(Check(std::string(kTwoTops) + kPredictions + Loss("SoftmaxWithLoss", "fc", "label")), "d:label"),
            (Shape{2}));
  const std::string map =
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'map' convolution_param { num_output: 5 "
      "kernel_size: 1 } } ";
  EXPECT_EQ(TopOf(Check(kTwoTops + map + Loss("SoftmaxWithLoss", "map", "label")), "d:label"), (Shape{2, 1, 224, 224}));
}

TEST(ConsumerShapesTest, ALossInPythonReadsALabel) {
  const std::string loss =
      "layer { name: 'loss' type: 'Python' bottom: 'fc' bottom: 'label' top: 'loss' loss_weight: 1 python_param { "
      "module: 'pythonLayer' layer: 'regression_Layer' } } ";
  EXPECT_EQ(TopOf(Check(std::string(kTwoTops) + kPredictions + loss), "d:label"), (Shape{2, 10}));
}

TEST(ConsumerShapesTest, ABatchOfTripletsHasThreeRows) {
  const std::string select =
      "layer { name: 's' type: 'Python' bottom: 'fc' bottom: 'labels' top: 'a' top: 'p' top: 'n' python_param { "
      "module: 'tripletselectlayer' layer: 'TripletSelectLayer' } } ";
  const StateCheck check = Check(PythonData("data labels", "DataLayer", "datalayer") + kPredictions + select);
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{3, 3, 224, 224}));
  EXPECT_EQ(TopOf(check, "d:labels"), (Shape{3}));
}

// Messages of a layer in Python go before its parameters, which say what is left.
TEST(ConsumerShapesTest, MessagesOfALayerInPythonSayItsPictures) {
  const auto python = [](const std::string& parameters, const std::string& messages) {
    return Check(StrCat("layer { name: 'd' type: 'Python' top: 'a' python_param { module: 'own' layer: 'Own' ",
                        "param_str: \"", parameters, "\" } ", messages, " } "));
  };
  const std::string resized = "transform_param { resize_param { height: 300 width: 200 } } ";
  const std::string batch = "data_param { source: 'x' batch_size: 4 } ";
  EXPECT_EQ(TopOf(python("{}", resized), "d:a"), (Shape{1, 3, 300, 200}));
  EXPECT_EQ(TopOf(python("{'batch_size': 2, 'imh': 64, 'imw': 32}", batch + resized), "d:a"), (Shape{4, 3, 300, 200}));
  EXPECT_EQ(TopOf(python("{'batchsize': 2, 'imh': 64, 'imw': 32}", ""), "d:a"), (Shape{2, 3, 64, 32}));
}

TEST(ConsumerShapesTest, ImagesOfForksThatSayTheirCells) {
  const std::string boxes =
      "layer { name: 'd' type: 'AnnotatedData' top: 'data' top: 'one' top: 'two' transform_param { caffe_yolo: true "
      "resize_param { width: 64 height: 64 } } data_param { batch_size: 2 side: 2 side: 4 } } ";
  const StateCheck check = Check(boxes);
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{2, 3, 64, 64}));
  EXPECT_EQ(TopOf(check, "d:one"), (Shape{2, 28}));
  EXPECT_EQ(TopOf(check, "d:two"), (Shape{2, 112}));
  const StateCheck pair = Check(
      "layer { name: 'd' type: 'SegData' top: 'data' top: 'label' seg_data_param { source: 'x' } transform_param { "
      "stride: 100 upper_width: 90 upper_height: 300 } } ");
  EXPECT_EQ(TopOf(pair, "d:data"), (Shape{1, 3, 200, 90}));
  EXPECT_EQ(TopOf(pair, "d:label"), (Shape{1, 1, 200, 90}));
}

TEST(ConsumerShapesTest, SlicesAddUp) {
  const std::string slice =
      "layer { name: 's' type: 'Slice' bottom: 'label' top: 'kind' top: 'points' slice_param { slice_point: 1 } } ";
  const StateCheck check = Check(std::string(kTwoTops) + kPredictions + slice + Loss("SoftmaxWithLoss", "fc", "kind") +
                                 Loss("EuclideanLoss", "fc", "points"));
  EXPECT_EQ(TopOf(check, "d:label"), (Shape{2, 11}));
  const std::string images =
      "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' top: 'c' slice_param { "
      "slice_point: 4 slice_point: 8 } } ";
  EXPECT_EQ(TopOf(Check(kTwoTops + images), "d:data"), (Shape{2, 12, 224, 224}));
}

// YOLO v1: 7 x 7 squares of a picture that no field sizes.
TEST(ConsumerShapesTest, SquaresSayThePicture) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'BoxData' top: 'data' top: 'label' data_param { source: 'x' batch_size: 2 side: 7 } } "
      "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param { kernel_size: 64 stride: 64 } } "
      "layer { name: 'c' type: 'Convolution' bottom: 'p' top: 'c' convolution_param { num_output: 30 kernel_size: 1 } "
      "} "
      "layer { name: 'r' type: 'Reshape' bottom: 'c' top: 'r' reshape_param { axis: 1 shape { dim: 1470 } } } "
      "layer { name: 'l' type: 'DetectionLoss' bottom: 'r' bottom: 'label' top: 'l' detection_loss_param { side: 7 "
      "num_class: 20 num_object: 2 } } ");
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{2, 3, 448, 448}));
  EXPECT_EQ(TopOf(check, "d:label"), (Shape{2, 343}));
}

// The tree's file belongs to the data: a net that is looked at does without it, one that is trained does not.
TEST(ConsumerShapesTest, AMissingTreeOfClassesIsAssumed) {
  const std::string net =
      "layer { name: 'd' type: 'Input' top: 'x' top: 'label' input_param { shape { dim: 1 dim: 14 dim: 2 dim: 2 } "
      "shape "
      "{ dim: 1 dim: 1 dim: 2 dim: 8 } } } layer { name: 'l' type: 'RegionLoss' bottom: 'x' bottom: 'label' top: 'l' "
      "region_loss_param { num_class: 2 num: 2 biases: 1 biases: 1 biases: 2 biases: 2 softmax_tree: 'no/such.tree' "
      "class_map: 'no/such.map' } } ";
  EXPECT_EQ(Check(net).error, "");
  EXPECT_THROW(BuildNet(NetFromText(net, "net.prototxt"), {}), Error);
}

// A layer in Python makes as many rows as its readers say, whatever its bottom has.
TEST(ConsumerShapesTest, RowsMadeElsewhereHaveTheirOwnNumber) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } } "
      "layer { name: 'q' type: 'Python' bottom: 'data' top: 'rois' top: 'labels' python_param { module: 'own' layer: "
      "'Proposals' } } "
      "layer { name: 'r' type: 'ROIPooling' bottom: 'data' bottom: 'rois' top: 'r' roi_pooling_param { pooled_h: 2 "
      "pooled_w: 2 } } "
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'r' top: 'fc' inner_product_param { num_output: 4 } } " +
      Loss("SoftmaxWithLoss", "fc", "labels"));
  EXPECT_EQ(TopOf(check, "q:rois"), (Shape{128, 5}));
  EXPECT_EQ(TopOf(check, "q:labels"), (Shape{128}));
}

TEST(ConsumerShapesTest, ImagesOfHdf5FilesMayBeGray) {
  const std::string sum =
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'map' convolution_param { num_output: 1 kernel_size: "
      "1 } } "
      "layer { name: 'sum' type: 'Eltwise' bottom: 'map' bottom: 'data' top: 'sum' } ";
  const StateCheck check = Check(kTwoTops + sum + Loss("EuclideanLoss", "sum", "label"));
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{2, 1, 224, 224}));
  EXPECT_EQ(TopOf(check, "d:label"), (Shape{2, 1, 224, 224}));
}

TEST(ConsumerShapesTest, FurtherTopsMayBePicturesOrRows) {
  const std::string python =
      "layer { name: 'd' type: 'Python' top: 'a' top: 'b' top: 'rows' "
      "python_param { module: 'pairs' layer: 'Pairs' param_str: \"{'batch_size': 3}\" } } ";
  const StateCheck pair = Check(
      python + "layer { name: 'ca' type: 'Pooling' bottom: 'a' top: 'pa' pooling_param { kernel_size: 2 } } " +
      "layer { name: 'cb' type: 'Pooling' bottom: 'b' top: 'pb' pooling_param { kernel_size: 2 } } " +
      "layer { name: 's' type: 'Slice' bottom: 'rows' top: 'r1' top: 'r2' slice_param { axis: 1 slice_point: 4 } } " +
      "layer { name: 'e' type: 'Eltwise' bottom: 'pa' bottom: 'pb' top: 'e' } ");
  EXPECT_EQ(TopOf(pair, "d:b"), (Shape{3, 3, 224, 224}));
  EXPECT_EQ(TopOf(pair, "d:rows"), (Shape{3, 8}));
}

TEST(ConsumerShapesTest, PicturesOfAnotherSizeAreTried) {
  // 7 x 7 cells from seven halvings, as YOLO has.
  const std::string python =
      "layer { name: 'd' type: 'Python' top: 'a' python_param { module: 'own' layer: 'Own' param_str: '' } } ";
  const StateCheck check =
      Check(python +
            "layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { pool: AVE kernel_size: 64 stride: "
            "64 } } " +
            "layer { name: 'r' type: 'Reshape' bottom: 'p' top: 'r' reshape_param { shape { dim: 0 dim: 147 } } } ");
  EXPECT_EQ(TopOf(check, "d:a"), (Shape{1, 3, 448, 448}));
}

TEST(ConsumerShapesTest, WordsOfSequencesHaveStreams) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'HDF5Data' top: 'cont' top: 'words' top: 'target' "
      "hdf5_data_param { source: 'x' batch_size: 5 } } "
      "layer { name: 'em' type: 'Embed' bottom: 'words' top: 'em' embed_param { input_dim: 9 num_output: 4 } } "
      "layer { name: 'l' type: 'LSTM' bottom: 'em' bottom: 'cont' top: 'l' recurrent_param { num_output: 6 } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'l' top: 'ip' inner_product_param { num_output: 9 axis: 2 } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'target' top: 'loss' "
      "softmax_param { axis: 2 } } ");
  EXPECT_EQ(TopOf(check, "d:cont"), (Shape{5, 2}));
  EXPECT_EQ(TopOf(check, "d:words"), (Shape{5, 2}));
  EXPECT_EQ(TopOf(check, "d:target"), (Shape{5, 2}));
}

// Sentences that are summed over their words are steps already: only their marks are open.
TEST(ConsumerShapesTest, SumsOfWordsKeepTheirSentences) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'StoryData' top: 'facts' "
      "story_data_param { output: STORY sentences: 5 words: 6 } data_param { batch_size: 8 } } "
      "layer { name: 'm' type: 'HDF5Data' top: 'cont' hdf5_data_param { source: 'x' batch_size: 8 } } "
      "layer { name: 'em' type: 'EmbedSum' bottom: 'facts' top: 'em' embed_sum_param { input_dim: 9 num_output: 4 } } "
      "layer { name: 'g' type: 'GRU' bottom: 'em' bottom: 'cont' top: 'g' recurrent_param { num_output: 6 } } ");
  EXPECT_EQ(check.error, "");
  EXPECT_EQ(TopOf(check, "d:facts"), (Shape{8, 5, 6}));
  EXPECT_EQ(TopOf(check, "m:cont"), (Shape{8, 5}));
}

TEST(ConsumerShapesTest, ABatchOfSequencesIsAllTheirSteps) {
  const std::string net =
      "layer { name: 'd' type: 'Python' top: 'a' python_param { module: 'own' layer: 'Own' param_str: '' } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'a' top: 'ip' inner_product_param { num_output: 5 } } "
      "layer { name: 'r' type: 'Reshape' bottom: 'ip' top: 'r' reshape_param { shape { dim: 4 dim: 3 dim: 5 } } } ";
  EXPECT_EQ(TopOf(Check(net), "d:a"), (Shape{12, 3, 224, 224}));
  EXPECT_EQ(TopOf(Check("layer { name: 'd' type: 'Data' top: 'a' data_param { source: 'x' batch_size: 2 } } "
                        "layer { name: 's' type: 'Slice' bottom: 'a' top: 'b' top: 'c' }"),
                  "d:a"),
            (Shape{2, 6, 224, 224}));
}

TEST(ConsumerShapesTest, RecordsKeepTheirOneLabelAndTheFirstErrorIsTold) {
  const std::string data =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 2 } } ";
  EXPECT_THAT(Check(data + kPredictions + Loss("EuclideanLoss", "fc", "label")).error,
              HasSubstr("must have one batch and one count"));
}

TEST(ConsumerShapesTest, AVideoReadersBatchIsItsNetsSteps) {
  const std::string net = PythonData("data label marks", "videoReadTrain_RGB", "sequence_input_layer") +
                          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                          "inner_product_param { num_output: 7 } } "
                          "layer { name: 'rx' type: 'Reshape' bottom: 'ip' top: 'x' "
                          "reshape_param { shape { dim: 16 dim: 2 dim: 7 } } } "
                          "layer { name: 'rm' type: 'Reshape' bottom: 'marks' top: 'm' "
                          "reshape_param { shape { dim: 16 dim: 2 } } } "
                          "layer { name: 'l' type: 'LSTM' bottom: 'x' bottom: 'm' top: 'l' "
                          "recurrent_param { num_output: 3 } } ";
  const StateCheck check = Check(net);
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{32, 3, 227, 227}));
  EXPECT_EQ(TopOf(check, "d:label"), (Shape{32}));
  EXPECT_EQ(TopOf(check, "d:marks"), (Shape{32}));
  EXPECT_THAT(check.assumed,
              ElementsAre(Pair("data", Shape{32, 3, 227, 227}), Pair("label", Shape{32}), Pair("marks", Shape{32})));
}

TEST(ConsumerShapesTest, FeaturesInRowsHaveStepsAndStreams) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'HDF5Data' top: 'cont' top: 'words' top: 'stage' top: 'fc7' "
      "hdf5_data_param { source: 'x' batch_size: 6 } } "
      "layer { name: 'r' type: 'Reshape' bottom: 'stage' top: 's' reshape_param { shape { dim: 6 dim: 4 dim: 1 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'fc7' top: 'ip' inner_product_param { num_output: 5 axis: -1 } "
      "} "
      "layer { name: 'em' type: 'Embed' bottom: 'words' top: 'em' embed_param { input_dim: 9 num_output: 5 } } "
      "layer { name: 'c' type: 'Concat' bottom: 'ip' bottom: 'em' bottom: 's' top: 'x' concat_param { axis: 2 } } "
      "layer { name: 'l' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'l' recurrent_param { num_output: 3 } } ");
  EXPECT_EQ(TopOf(check, "d:stage"), (Shape{6, 4}));
  EXPECT_EQ(TopOf(check, "d:words"), (Shape{6, 4}));
  EXPECT_EQ(TopOf(check, "d:cont"), (Shape{6, 4}));
  EXPECT_EQ(TopOf(check, "d:fc7"), (Shape{6, 4, 4096}));
  EXPECT_EQ(TopOf(check, "c:x"), (Shape{6, 4, 11}));
}

TEST(ConsumerShapesTest, WhatIsRestoredHasTheRestoredShape) {
  const std::string autoencoder =
      "layer { name: 'in' type: 'InnerProduct' bottom: 'a' top: 'in' inner_product_param { num_output: 5 } } "
      "layer { name: 'out' type: 'InnerProduct' bottom: 'in' top: 'out' inner_product_param { num_output: 96 } } ";
  EXPECT_EQ(TopOf(Check(PythonData("a") + autoencoder + Loss("EuclideanLoss", "out", "a")), "d:a"), (Shape{1, 96}));
  const std::string voxels =
      "layer { name: 'c' type: 'Convolution' bottom: 'v' top: 'c' convolution_param { num_output: 2 kernel_size: 3 } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip' inner_product_param { num_output: 8 } } "
      "layer { name: 'r' type: 'Reshape' bottom: 'ip' top: 'r' "
      "reshape_param { shape { dim: -1 dim: 1 dim: 2 dim: 2 dim: 2 } } } "
      "layer { name: 'u' type: 'Deconvolution' bottom: 'r' top: 'u' "
      "convolution_param { num_output: 1 kernel_size: 3 } } ";
  EXPECT_EQ(TopOf(Check(PythonData("a v") + voxels + Loss("SigmoidCrossEntropyLoss", "u", "v")), "d:v"),
            (Shape{1, 1, 4, 4, 4}));
}

TEST(ConsumerShapesTest, AsksThroughProductsOfLabels) {
  // Coverage and boxes, each times a mask, cut from one blob.
  const StateCheck check = Check(
      "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'x' batch_size: 1 } } "
      "layer { name: 't' type: 'Data' top: 'label' data_param { source: 'x' batch_size: 1 } } "
      "layer { name: 's' type: 'Slice' bottom: 'label' top: 'one' top: 'boxes' top: 'size' "
      "slice_param { slice_point: 1 slice_point: 5 } } "
      "layer { name: 'n' type: 'Eltwise' bottom: 'boxes' bottom: 'size' top: 'n' } "
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' "
      "convolution_param { num_output: 1 kernel_size: 16 stride: 16 } } "
      "layer { name: 'b' type: 'Convolution' bottom: 'data' top: 'b' "
      "convolution_param { num_output: 4 kernel_size: 16 stride: 16 } } " +
      Loss("EuclideanLoss", "c", "one") + Loss("L1Loss", "b", "n"));
  EXPECT_EQ(TopOf(check, "t:label"), (Shape{1, 9, 14, 14}));
}

TEST(ConsumerShapesTest, PartsWithOneParameterAreEqual) {
  const auto convolution = [](const std::string& bottom) {
    return "layer { name: 'c_" + bottom + "' type: 'Convolution' bottom: '" + bottom + "' top: 'c_" + bottom +
           "' param { name: 'w' } convolution_param { num_output: 2 kernel_size: 3 bias_term: false } } ";
  };
  const StateCheck check = Check(
      "layer { name: 'd' type: 'Data' top: 'pair' data_param { source: 'x' batch_size: 2 } } "
      "layer { name: 's' type: 'Slice' bottom: 'pair' top: 'l' top: 'r' slice_param { slice_point: 1 } } " +
      convolution("l") + convolution("r"));
  EXPECT_EQ(TopOf(check, "d:pair"), (Shape{2, 2, 224, 224}));
}

TEST(ConsumerShapesTest, UpAndDownMustMeet) {
  const std::string five =
      "layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 5 stride: 5 } } "
      "layer { name: 'u' type: 'Deconvolution' bottom: 'p' top: 'u' "
      "convolution_param { num_output: 1 kernel_size: 5 stride: 5 } } "
      "layer { name: 'b' type: 'Power' bottom: 'a' top: 'b' } "
      "layer { name: 'v' type: 'Convolution' bottom: 'b' top: 'v' "
      "convolution_param { num_output: 1 kernel_size: 1 } } "
      "layer { name: 'c' type: 'Concat' bottom: 'u' bottom: 'v' top: 'c' } ";
  const StateCheck check = Check(PythonData("a") + five);
  EXPECT_EQ(TopOf(check, "d:a"), (Shape{1, 3, 360, 480}));
  EXPECT_THAT(check.assumed, ElementsAre(Pair("a", Shape{1, 3, 360, 480})));
  // A shape that is stated or given stays.
  EXPECT_THAT(Check(PythonData("a") + five, {{"a", {1, 3, 64, 64}}}).error, HasSubstr("must agree but for axis 1"));
  EXPECT_THAT(Check("layer { name: 'd' type: 'Data' top: 'a' data_param { source: 'x' batch_size: 1 } "
                    "transform_param { crop_size: 64 } } " +
                    five)
                  .error,
              HasSubstr("must agree but for axis 1"));
  // If the picture itself is joined too, the blob beside it says its size.
  const std::string beside = "layer { name: 'e' type: 'Concat' bottom: 'u' bottom: 'b' top: 'e' } ";
  EXPECT_EQ(TopOf(Check(PythonData("a") + five.substr(0, five.find("layer { name: 'v'")) + beside), "d:a"),
            (Shape{1, 3, 225, 225}));
  // Built in, of an open size.
  EXPECT_EQ(TopOf(Check(PythonData("a label", "VOCSegDataLayer", "voc_layers") +
                        "layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' "
                        "pooling_param { kernel_size: 16 stride: 16 } } "
                        "layer { name: 'u' type: 'Deconvolution' bottom: 'p' top: 'u' "
                        "convolution_param { num_output: 1 kernel_size: 16 stride: 16 } } "
                        "layer { name: 'c' type: 'Concat' bottom: 'u' bottom: 'a' bottom: 'label' top: 'c' } "),
                  "d:label"),
            (Shape{1, 1, 512, 512}));
}

TEST(ConsumerShapesTest, PicturesOfSeveralLayersHaveOneSizeAndBatch) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'DenseImageData' top: 'data' top: 'label' "
      "dense_image_data_param { source: 'x' batch_size: 5 } } "
      "layer { name: 'e' type: 'Python' top: 'xy' python_param { module: 'own' layer: 'Own' "
      "param_str: \"{'batchsize': '5'}\" } } "
      "layer { name: 's' type: 'Eltwise' bottom: 'data' bottom: 'xy' top: 's' } ");
  EXPECT_EQ(TopOf(check, "d:data"), TopOf(check, "e:xy"));
  EXPECT_EQ(TopOf(check, "e:xy")[0], 5);
}

TEST(ConsumerShapesTest, SizesThatTheNetNamesComeFirst) {
  const StateCheck check = Check(
      "layer { name: 'd' type: 'DenseImageData' top: 'data' top: 'label' "
      "dense_image_data_param { source: 'x' batch_size: 1 } } "
      "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' top: 'm' "
      "pooling_param { kernel_size: 2 stride: 2 } } "
      "layer { name: 'q' type: 'Pooling' bottom: 'p' top: 'q' top: 'n' pooling_param { kernel_size: 2 stride: 2 } } "
      "layer { name: 'v' type: 'Upsample' bottom: 'q' bottom: 'n' top: 'v' "
      "upsample_param { scale: 2 upsample_h: 23 upsample_w: 30 } } "
      "layer { name: 'u' type: 'Upsample' bottom: 'v' bottom: 'm' top: 'u' upsample_param { scale: 2 } } ");
  EXPECT_EQ(TopOf(check, "d:data"), (Shape{1, 3, 46, 60}));
  EXPECT_EQ(TopOf(check, "d:label"), (Shape{1, 1, 46, 60}));
}

TEST(ConsumerShapesTest, AForksLoaderOfAKnownNameMayGiveMore) {
  const StateCheck check =
      Check(PythonData("data im_info gt_boxes attributes", "RoIDataLayer", "roi_data_layer.layer") +
            "layer { name: 's' type: 'Slice' bottom: 'attributes' top: 'x' top: 'y' slice_param { slice_point: 4 } } ");
  EXPECT_EQ(TopOf(check, "d:im_info"), (Shape{1, 3}));
  EXPECT_EQ(TopOf(check, "d:gt_boxes"), (Shape{64, 5}));
  EXPECT_EQ(TopOf(check, "d:attributes"), (Shape{1, 8}));
  for (const std::string tops : {"a b c e", "a b label"}) {
    EXPECT_EQ(TopOf(Check(PythonData(tops, "videoReadTrain_RGB", "sequence_input_layer")), "d:b"), (Shape{1}));
  }
  // Layers that are pooled into what a loss compares.
  EXPECT_EQ(TopOf(Check(PythonData("a label") +
                        "layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 8 stride: "
                        "8 } } layer { name: 'q' type: 'Pooling' bottom: 'label' top: 'q' pooling_param { kernel_size: "
                        "2 stride: 2 } } " +
                        Loss("EuclideanLoss", "p", "q")),
                  "d:label"),
            (Shape{1, 3, 56, 56}));
}

TEST(ConsumerShapesTest, LayersOfPythonsOwnModulesAreTakenAsTheirTops) {
  const auto python = [](const std::string& wiring, const std::string& layer) {
    return StrCat("layer { name: '", layer, "' type: 'Python' ", wiring, " python_param { module: 'mine' layer: '",
                  layer, "' } } ");
  };
  const StateCheck check = Check(
      std::string(kTwoTops) + kPredictions + python("bottom: 'fc' top: 'fc'", "InPlace") +
      python("bottom: 'fc' bottom: 'label' top: 'norm' top: 'rest'", "Norm") +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'norm' top: 'ip' inner_product_param { num_output: 3 } } " +
      python("bottom: 'ip' top: 'wide'", "Wide") +
      "layer { name: 'sum' type: 'Eltwise' bottom: 'fc' bottom: 'wide' top: 'sum' } " +
      python("bottom: 'sum' bottom: 'rest' top: 'cost' loss_weight: 1", "Cost"));
  EXPECT_EQ(check.error, "");
  EXPECT_EQ(TopOf(check, "InPlace:fc"), (Shape{2, 10}));
  EXPECT_EQ(TopOf(check, "Norm:norm"), (Shape{2, 10}));
  EXPECT_EQ(TopOf(check, "Norm:rest"), (Shape{2}));
  EXPECT_EQ(TopOf(check, "Cost:cost"), (Shape{1}));
  EXPECT_THAT(check.elsewhere, ElementsAre("mine.Cost", "mine.InPlace", "mine.Norm", "mine.Wide"));
  // Built-in classes are no such layers, but other classes of a built-in one's name are.
  EXPECT_THAT(Check(PythonData("data im_info gt_boxes", "RoIDataLayer", "roi_data_layer.layer")).elsewhere,
              testing::IsEmpty());
  const std::string euclidean =
      "bottom: 'data' top: 'e' python_param { module: 'pyloss' layer: 'EuclideanLossLayer' } ";
  EXPECT_THAT(Check(StrCat(kTwoTops, "layer { name: 'p' type: 'Python' ", euclidean, "}")).elsewhere,
              ElementsAre("pyloss.EuclideanLossLayer"));
}

TEST(ConsumerShapesTest, AMistakeAfterGuessedShapesSaysSo) {
  const StateCheck check =
      Check(std::string(kTwoTops) + kPredictions +
            "layer { name: 'n' type: 'Python' bottom: 'fc' top: 'n' python_param { module: 'mine' layer: 'Norm' } } " +
            "layer { name: 's' type: 'Slice' bottom: 'n' top: 'a' top: 'b' slice_param { slice_point: 0 } }");
  EXPECT_THAT(check.error, HasSubstr("what the Python layers mine.Norm make were guessed"));
}

TEST(ConsumerShapesTest, MistakesThatNoShapeMendsStay) {
  const std::string data = PythonData("a label") +
                           "layer { name: 'ip' type: 'InnerProduct' bottom: 'a' top: 'ip' "
                           "inner_product_param { num_output: 5 } } ";
  const StateCheck unknown = Check(data + "layer { name: 'o' type: 'Odd' bottom: 'ip' top: 'o' } ");
  EXPECT_THAT(unknown.error, HasSubstr("unknown layer type \"Odd\""));
  EXPECT_TRUE(unknown.assumed.empty());
  EXPECT_THAT(
      Check(data + "layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 0 } } ").error,
      HasSubstr("layer \"p\""));
  // A table of boxes of 3 classes for scores of 2: the loader says 3.
  const std::string boxes =
      "layer { name: 'd' type: 'Python' top: 'data' top: 'rois' top: 'labels' top: 'bbox_targets' python_param { "
      "module: 'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: \"'num_classes': 3\" } } "
      "layer { name: 'r' type: 'ROIPooling' bottom: 'data' bottom: 'rois' top: 'r' "
      "roi_pooling_param { pooled_h: 2 pooled_w: 2 } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'r' top: 'ip' inner_product_param { num_output: 8 } } ";
  EXPECT_THAT(Check(boxes + Loss("SmoothL1Loss", "ip", "bbox_targets")).error,
              HasSubstr("must have one batch and one count"));
}

TEST(ConsumerShapesTest, DetectNetsLabelsAreRowsOfBoxes) {
  const auto data = [](const std::string& top) {
    return "layer { name: '" + top + "' type: 'Data' top: '" + top + "' data_param { source: 'x' batch_size: 3 } } ";
  };
  const StateCheck check = Check(data("data") + data("label") +
                                 "layer { name: 't' type: 'DetectNetTransformation' bottom: 'data' bottom: 'label' "
                                 "top: 'x' top: 'grid' detectnet_groundtruth_param { stride: 16 } } ");
  EXPECT_EQ(TopOf(check, "label:label"), (Shape{3, 1, 65, 16}));
  EXPECT_EQ(TopOf(check, "t:grid"), (Shape{3, 9, 24, 78}));
}

}  // namespace
}  // namespace moka

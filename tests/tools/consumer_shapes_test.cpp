// Shapes of data tops from the layers that read them, by way of the check of a net.
#include "tools/consumer_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/net_file.h"
#include "tools/net_check.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoTops =
    "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: 'x' batch_size: 2 } } ";
constexpr const char* kPredictions =
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc' inner_product_param { num_output: 10 } } ";

StateCheck Check(const std::string& text) {
  NetState state;
  state.set_phase(TRAIN);
  return CheckNet(NetFromText(text, "net.prototxt"), state, {});
}

Shape TopOf(const StateCheck& check, const std::string& name) {
  for (const auto& [top, shape] : check.tops) {
    if (top == name) return shape;
  }
  ADD_FAILURE() << "no top " << name << ": " << check.error;
  return {};
}

std::string Loss(const std::string& type, const std::string& scores, const std::string& label) {
  return "layer { name: 'loss_" + label + "' type: '" + type + "' bottom: '" + scores + "' bottom: '" + label +
         "' top: 'loss_" + label + "' } ";
}

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

}  // namespace
}  // namespace moka

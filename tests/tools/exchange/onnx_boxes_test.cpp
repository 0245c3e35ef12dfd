// SSD's boxes as ONNX: how they are suppressed, and what has no form. Values are checked against ONNX Runtime and
// OpenCV in tests/tools/scripts/onnx_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/tools/exchange/exported_nets.h"

namespace moka {
namespace {

using testing::HasSubstr;

// Two classes beside the background, for each of 16 cells a box.
std::string Detector(const std::string& more = {}) {
  return Layer("loc", "InnerProduct", "data", "inner_product_param { num_output: 64 }") +
         Layer("conf", "InnerProduct", "data", "inner_product_param { num_output: 48 }") +
         Layer("prior", "PriorBox", "data data", "prior_box_param { min_size: 2 variance: 0.1 }") +
         Layer("boxes", "DetectionOutput", "loc conf prior",
               "detection_output_param { num_classes: 3 keep_top_k: 5 confidence_threshold: 0.1 code_type: CENTER_SIZE "
               "nms_param { nms_threshold: 0.4 top_k: 8 " +
                   more + " } }");
}

TEST(OnnxBoxes, BoxesAreSuppressedClassByClassAndRowsAreTheLayers) {
  const OnnxModel model = Export("dim: 1 dim: 4 dim: 4", Detector());
  const std::vector<std::string> types = TypesIn(model);
  EXPECT_EQ(std::ranges::count(types, "NonMaxSuppression"), 1);
  EXPECT_EQ(std::ranges::count(types, "Exp"), 1);
  EXPECT_EQ(TextIn(model.proto.graph().output(0)), "boxes [1,1,5*N,7]");
  // The first TopK takes 8 boxes of each class, the later ones 5 rows of each image.
  EXPECT_EQ(TensorOf(model, NodeOf(model, "TopK").input(1))->ints, Ints{8});
  const onnx::NodeProto& suppression = NodeOf(model, "NonMaxSuppression");
  EXPECT_EQ(TensorOf(model, suppression.input(2))->ints, Ints{8});
  EXPECT_EQ(TensorOf(model, suppression.input(3))->floats.at(0), 0.4F);
  EXPECT_EQ(TensorOf(model, suppression.input(4))->floats.at(0), 0.1F);
}

TEST(OnnxBoxes, BoxesThatONNXCannotSuppressAreRefused) {
  const auto refusal = [](const std::string& more, int64_t opset) {
    try {
      Export("dim: 1 dim: 4 dim: 4", Detector(more), opset);
    } catch (const ErrorList& errors) {
      return std::string(errors.errors().at(0).what());
    }
    return std::string("exported");
  };
  EXPECT_THAT(refusal("eta: 0.7", 13), HasSubstr("a threshold that shrinks (eta)"));
  EXPECT_THAT(refusal("", 11), HasSubstr("since opset 12"));
}

}  // namespace
}  // namespace moka

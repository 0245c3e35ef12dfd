// The layers of memory networks, EmbedSum and MatMul: mistakes and shapes (tests/golden/layers_memory.json has values
// and gradients; recurrent_test.cpp runs wrong indices).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "net_run.h"

namespace moka {
namespace {

using testing::HasSubstr;

std::string WithInputs(const std::vector<std::vector<int64_t>>& shapes, const std::string& type,
                       const std::string& fields, const std::string& tops = "top: \"y\"") {
  std::string inputs;
  std::string layer = StrCat("layer { name: \"l\" type: \"", type, "\" ");
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs += InputText(StrCat("x", i), shapes[i]);
    layer += StrCat("bottom: \"x", i, "\" ");
  }
  return StrCat(inputs, layer, tops, " ", fields, " }");
}

TEST(MemoryLayerTest, MistakesOfEmbedSum) {
  const auto fault = [](const std::string& fields) {
    return ErrorsOf(WithInputs({{4}}, "EmbedSum", StrCat("embed_sum_param { ", fields, " }")));
  };
  EXPECT_THAT(fault("input_dim: 3"), HasSubstr("num_output must be given"));
  EXPECT_THAT(fault("num_output: 3"), HasSubstr("input_dim must be given"));
  EXPECT_THAT(fault("num_output: 3 input_dim: 5 padding: 5"),
              HasSubstr("padding is 5, expected a row of the table, 0..4, or -1 for none"));
  EXPECT_THAT(fault("num_output: 3 input_dim: 5 padding: -2"), HasSubstr("padding is -2"));
  EXPECT_THAT(ErrorsOf(WithInputs({{}}, "EmbedSum", "embed_sum_param { num_output: 3 input_dim: 5 }")),
              HasSubstr("the bottom needs an axis of words, found []"));
}

TEST(MemoryLayerTest, MistakesOfMatMul) {
  const auto fault = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b, const std::string& fields = "") {
    return ErrorsOf(WithInputs({a, b}, "MatMul", fields));
  };
  EXPECT_THAT(fault({4}, {4, 2}), HasSubstr("both bottoms need at least two axes, found a [4] and b [4,2]"));
  EXPECT_THAT(fault({2, 3, 4}, {3, 4, 5}),
              HasSubstr("all axes but the last two must be equal, or b must have two, found a [2,3,4] and b [3,4,5]"));
  EXPECT_THAT(fault({2, 3, 4}, {2, 5, 6}), HasSubstr("a has 4 columns and b 5 rows: a [2,3,4] and b [2,5,6]"));
  EXPECT_THAT(fault({2, 3, 4}, {2, 5, 6}, "matmul_param { transpose_a: true transpose_b: true }"),
              HasSubstr("a transposed has 3 columns and b transposed 6 rows"));
  EXPECT_THAT(fault({2, 3, 4}, {3, 5}, "matmul_param { transpose_a: true }"),
              HasSubstr("transpose_a needs as many axes of b as of a"));
}

TEST(MemoryLayerTest, ShapesOfProducts) {
  const auto shape = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b, const std::string& fields = "") {
    const BuiltNet net = BuildText(WithInputs({a, b}, "MatMul", fields));
    return net.graph.shape(net.tops.at("y"));
  };
  EXPECT_EQ(shape({2, 1, 20}, {2, 50, 20}, "matmul_param { transpose_b: true }"), (Shape{2, 1, 50}));
  EXPECT_EQ(shape({2, 3, 4, 5}, {5, 7}), (Shape{2, 3, 4, 7}));
  EXPECT_EQ(shape({4, 3}, {4, 7}, "matmul_param { transpose_a: true }"), (Shape{3, 7}));
}

}  // namespace
}  // namespace moka

// Faster and Mask R-CNN on ResNet-50 with a pyramid against torchvision's on shared weights
// (tests/golden/make_rcnn_goldens.py): the number of learned parameters, the maps, what the region proposal network
// says of them, and both heads on the same regions, through the program that inference runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tests/golden_values.h"

namespace moka {
namespace {

using RcnnJson = nlohmann::json;

constexpr double kRcnnTolerance = 1e-4;
constexpr int64_t kRcnnSamples = 64;

// A layer without bottoms for tops that the test gives.
LayerParameter RcnnInput(const std::vector<std::string>& tops, const std::vector<std::vector<int64_t>>& shapes) {
  LayerParameter input;
  input.set_name(tops[0] + "_given");
  input.set_type("Input");
  for (size_t i = 0; i < tops.size(); ++i) {
    input.add_top(tops[i]);
    BlobShape& shape = *input.mutable_input_param()->add_shape();
    for (const int64_t dim : shapes[i]) shape.add_dim(dim);
  }
  return input;
}

class RcnnTest : public testing::TestWithParam<std::string> {
 protected:
  RcnnTest()
      : golden_(RcnnJson::parse(std::ifstream(StrCat(MOKA_SOURCE_DIR, "/tests/golden/nets/rcnn_r50_fpn.json")))) {}

  int64_t regions() const { return std::ssize(golden_.at("proposals")); }

  // The deployed net, with given regions in place of its own proposals and detections.
  BuiltNet Build() {
    NetOptions options;
    options.state.set_phase(TEST);
    options.state.add_stage("deploy");
    NetParameter net =
        FilterNet(ReadNet(StrCat(MOKA_SOURCE_DIR, "/models/", GetParam(), "/train_val.prototxt")), options.state);
    for (LayerParameter& layer : *net.mutable_layer()) {
      if (layer.name() == "proposals") layer = RcnnInput({"proposals"}, {{regions(), 5}});
      if (layer.name() == "detections") layer = RcnnInput({"mask_rois", "mask_classes"}, {{regions(), 5}, {regions()}});
      layers_[layer.name()] = layer;
    }
    const Shape input(golden_.at("input_shape").get<std::vector<int64_t>>());
    options.data_types = [input](const LayerParameter& layer) {
      std::vector<TensorType> types = {{DType::kFloat32, input, {}}, {DType::kFloat32, Shape{1, 1, 1, 8}, {}}};
      if (layer.top_size() > 2) types.push_back({DType::kFloat32, input.With(1, 1), {}});
      return types;
    };
    return BuildNet(net, options);
  }

  // Returns how many there are that learn.
  int64_t Fill(const BuiltNet& net, ParameterStore& store) {
    int64_t learned = 0;
    for (const NetBlob& blob : net.blobs) {
      if (blob.shared) continue;
      const bool is_statistic = blob.role == ParameterRole::kStatistic;
      store.Add(blob.name, blob.shape);
      store.Set(blob.name, is_statistic ? GoldenStatistic(blob) : GoldenParameter(blob, layers_.at(blob.layer)));
      if (!is_statistic && blob.lr_mult != 0) learned += blob.shape.Count();
    }
    return learned;
  }

  void Compare(const std::string& name, const RcnnJson& expected, const Tensor& found) const {
    EXPECT_EQ(found.shape(), Shape(expected.at("shape").get<std::vector<int64_t>>())) << name;
    const std::span<const float> values = found.as<const float>();
    double squares = 0;
    for (const float v : values) squares += double{v} * double{v};
    const double norm = expected.at("norm").get<double>();
    EXPECT_NEAR(std::sqrt(squares), norm, kRcnnTolerance * norm) << name;
    const auto samples = expected.at("samples").get<std::vector<double>>();
    const std::vector<int64_t> places = GoldenSampleIndices(name, std::ssize(values), kRcnnSamples);
    ASSERT_EQ(samples.size(), places.size()) << name;
    for (size_t i = 0; i < samples.size(); ++i) {
      EXPECT_NEAR(double{values[static_cast<size_t>(places[i])]}, samples[i],
                  kRcnnTolerance * expected.at("max").get<double>())
          << name << "[" << places[i] << "]";
    }
  }

  RcnnJson golden_;
  std::map<std::string, LayerParameter> layers_;
};

TEST_P(RcnnTest, CountsMapsAndHeadsAgreeWithTorchvision) {
  BuiltNet net = Build();
  ParameterStore store;
  EXPECT_EQ(Fill(net, store), golden_.at("parameters").at(GetParam()).get<int64_t>());
  const bool has_masks = net.tops.contains("mask_score");
  EXPECT_EQ(has_masks, GetParam() == "mask_rcnn_r50_fpn");
  for (const auto& [name, expected] : golden_.at("tops").items()) {
    if (has_masks || name != "mask_score") net.graph.AddOutput(name, net.tops.at(name));
  }
  CompileOptions compile;
  compile.inference = true;
  const std::unique_ptr<Program> program = Compile(std::move(net.graph), store, compile);
  std::vector<float> rois;
  for (const auto& row : golden_.at("proposals")) {
    for (const auto& value : row) rois.push_back(value.get<float>());
  }
  const Tensor data = program->input("data");
  std::ranges::copy(GoldenPicture(data.shape().Count()), data.as<float>().begin());
  std::ranges::copy(rois, program->input("proposals").as<float>().begin());
  if (has_masks) std::ranges::copy(rois, program->input("mask_rois").as<float>().begin());
  program->Run();
  for (const auto& [name, expected] : golden_.at("tops").items()) {
    if (has_masks || name != "mask_score") Compare(name, expected, program->output(name));
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, RcnnTest, testing::Values("faster_rcnn_r50_fpn", "mask_rcnn_r50_fpn"),
                         [](const auto& net) { return net.param; });

}  // namespace
}  // namespace moka

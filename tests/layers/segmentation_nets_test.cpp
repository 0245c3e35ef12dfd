// The full-size segmentation nets against PyTorch (tests/golden/make_segmentation_net_goldens.py): numbers of
// parameters, and the forward pass on shared weights through the compiled program.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/rng.h"
#include "core/text.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

using NetJson = nlohmann::json;

constexpr uint64_t kParitySeed = 1701;
constexpr uint64_t kParitySampleSeed = 7;

// u - 0.5 of tests/golden/moka_random.py.
std::vector<double> Centered(std::string_view stream, int64_t count) {
  const uint64_t hash = StableHash(stream);
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t k = 0; k < values.size(); ++k) {
    values[k] = static_cast<double>(UnitFloat(RandomWord(kParitySeed, hash, k))) - 0.5;
  }
  return values;
}

// As the script's fill: weights as He's uniform ones, scales and variances about 1, all else about 0.
std::vector<float> ParityValues(const NetBlob& blob, const std::string& type) {
  if (type == "BatchNorm" && blob.index == 2) return {1};  // what the sums are divided by
  const bool is_weight = blob.role == ParameterRole::kWeight;
  const bool is_scale =
      (type == "BatchNorm" && blob.index == 1) || (blob.role == ParameterRole::kNorm && blob.index == 0);
  const double width =
      is_weight ? 2 * std::sqrt(2.0) * std::sqrt(3.0 / static_cast<double>(blob.shape.Count(1, blob.shape.rank())))
                : 0.2;
  std::vector<float> values;
  for (const double u : Centered(StrCat(blob.layer, "/", blob.index), blob.shape.Count())) {
    values.push_back(static_cast<float>((is_scale ? 1 : 0) + width * u));
  }
  return values;
}

class SegmentationNets : public testing::TestWithParam<std::string> {};

TEST_P(SegmentationNets, HaveTheParametersAndTheForwardPassOfPyTorch) {
  std::ifstream file(StrCat(MOKA_SOURCE_DIR, "/tests/golden/nets/segmentation.json"));
  const NetJson golden = NetJson::parse(file).at(GetParam());
  NetState state;
  state.set_phase(TEST);
  NetParameter param =
      FilterNet(ReadNet(StrCat(MOKA_SOURCE_DIR, "/models/", GetParam(), "/train_val.prototxt")), state);
  std::map<std::string, std::string> types;
  for (LayerParameter& layer : *param.mutable_layer()) {
    types[layer.name()] = layer.type();
    if (layer.type() == "Power") layer.mutable_power_param()->set_scale(1);
    if (layer.type() == "Upsample") layer.clear_upsample_param();
  }
  const Shape input(golden.at("input").get<std::vector<int64_t>>());
  NetOptions options;
  options.state = state;
  options.data_types = [&](const LayerParameter&) {
    return std::vector<TensorType>{{DType::kFloat32, input, {}}, {DType::kFloat32, input.With(1, 1), {}}};
  };
  BuiltNet net = BuildNet(param, options);
  int64_t parameters = 0;
  ParameterStore store;
  for (const NetBlob& blob : net.blobs) {
    if (blob.role != ParameterRole::kStatistic) parameters += blob.shape.Count();
    store.Add(blob.name, blob.shape);
    store.Set(blob.name, ParityValues(blob, types.at(blob.layer)));
  }
  EXPECT_EQ(parameters, golden.at("parameters").get<int64_t>());

  const std::string scores = GetParam() == "segnet" ? "conv1_1_D" : "score";
  net.graph.AddOutput(scores, net.tops.at(scores));
  CompileOptions compile;
  compile.inference = true;
  const auto program = Compile(std::move(net.graph), store, compile);
  const std::vector<double> data = Centered("data", input.Count());
  for (size_t k = 0; k < data.size(); ++k) program->input("data").as<float>()[k] = static_cast<float>(2 * data[k]);
  program->Run();

  const Tensor output = program->output(scores);
  EXPECT_EQ(output.shape(), Shape(golden.at("output").get<std::vector<int64_t>>()));
  const double most = golden.at("max").get<double>();
  double squares = 0;
  for (const float y : output.as<const float>()) squares += double{y} * double{y};
  const double norm = golden.at("norm").get<double>();
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm);
  const auto samples = golden.at("samples").get<std::vector<double>>();
  for (size_t j = 0; j < samples.size(); ++j) {
    const auto at =
        RandomWord(kParitySampleSeed, StableHash(GetParam()), j) % static_cast<uint64_t>(output.shape().Count());
    EXPECT_NEAR(double{output.as<const float>()[at]}, samples[j], 1e-4 * most) << "sample " << j << " at " << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, SegmentationNets, testing::Values("deeplab50", "fcn8s", "segnet", "unet"),
                         [](const auto& one) { return one.param; });

// Those that are trained here: in both phases, at the sizes of their data, with a loss and the cards' numbers.
TEST(SmallSegmentationNets, BuildForTrainingAndTests) {
  struct Small {
    std::string folder;
    Shape train;
    Shape test;
    int64_t classes;
    int64_t parameters;
  };
  for (const Small& small : {Small{"camvid_unet", {4, 3, 180, 240}, {1, 3, 180, 240}, 11, 2569755},
                             Small{"isbi_unet", {4, 1, 224, 224}, {1, 1, 512, 512}, 2, 433858}}) {
    for (const Phase phase : {TRAIN, TEST}) {
      SCOPED_TRACE(StrCat(small.folder, " ", Phase_Name(phase)));
      const Shape input = phase == TRAIN ? small.train : small.test;
      NetOptions options;
      options.state.set_phase(phase);
      options.data_types = [&](const LayerParameter&) {
        return std::vector<TensorType>{{DType::kFloat32, input, {}}, {DType::kFloat32, input.With(1, 1), {}}};
      };
      const BuiltNet net =
          BuildNet(ReadNet(StrCat(MOKA_SOURCE_DIR, "/models/", small.folder, "/train_val.prototxt")), options);
      EXPECT_NE(net.loss, kNoId);
      EXPECT_EQ(net.graph.shape(net.tops.at("score")), input.With(1, small.classes));
      EXPECT_EQ(net.tops.contains("miou"), phase == TEST);
      int64_t parameters = 0;
      for (const NetBlob& blob : net.blobs)
        parameters += blob.role == ParameterRole::kStatistic ? 0 : blob.shape.Count();
      EXPECT_EQ(parameters, small.parameters);
    }
  }
}

}  // namespace
}  // namespace moka

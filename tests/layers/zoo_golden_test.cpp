// Every classifier of the zoo against an independent description of it in PyTorch (tests/golden/make_zoo_goldens.py):
// the numbers of parameters and statistics, and the forward pass in test mode, through the program that inference runs:
// batch norms folded, kernels and layouts chosen.
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

using Json = nlohmann::json;

constexpr double kZooTolerance = 1e-4;  // of a tensor's largest value, and of its norm
constexpr int64_t kZooSamples = 16;

const Json& ZooGoldens() {
  static const Json goldens = Json::parse(std::ifstream(StrCat(MOKA_SOURCE_DIR, "/tests/golden/zoo.json")));
  return goldens;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : ZooGoldens().items()) names.push_back(name);
  return names;
}

class ZooGolden : public testing::TestWithParam<std::string> {
 protected:
  const Json& golden() const { return ZooGoldens().at(GetParam()); }

  BuiltNet Build() {
    NetState state;
    state.set_phase(TEST);
    for (const auto& stage : golden().at("stages")) state.add_stage(stage.get<std::string>());
    const std::string file = StrCat(MOKA_SOURCE_DIR, "/models/", golden().at("folder").get<std::string>(), "/",
                                    golden().at("file").get<std::string>());
    const Shape shape(golden().at("input_shape").get<std::vector<int64_t>>());
    NetParameter net = FilterNet(ReadNet(file), state);
    for (LayerParameter& layer : *net.mutable_layer()) {
      if (layer.type() == "Input") layer.mutable_input_param()->mutable_shape(0)->set_dim(0, shape[0]);
      layers_[layer.name()] = layer;
    }
    NetOptions options;
    options.state = state;
    options.data_types = [shape](const auto&) {
      return std::vector<TensorType>{{DType::kFloat32, shape, {}}, {DType::kFloat32, Shape{shape[0]}, {}}};
    };
    return BuildNet(net, options);
  }

  // Counts what it fills.
  void Fill(const BuiltNet& net, ParameterStore& store) {
    for (const NetBlob& blob : net.blobs) {
      if (blob.shared) continue;
      const bool is_statistic = blob.role == ParameterRole::kStatistic;
      (is_statistic ? statistics_ : parameters_) += blob.shape.Count();
      store.Add(blob.name, blob.shape);
      store.Set(blob.name, is_statistic ? GoldenStatistic(blob) : GoldenParameter(blob, layers_.at(blob.layer)));
    }
  }

  static void ExpectTop(const std::string& name, const Json& expected, const Tensor& found) {
    EXPECT_EQ(found.shape().Count(), Shape(expected.at("shape").get<std::vector<int64_t>>()).Count()) << name;
    const std::span<const float> values = found.as<const float>();
    double squares = 0;
    for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
    const double norm = expected.at("norm").get<double>();
    EXPECT_NEAR(std::sqrt(squares), norm, kZooTolerance * norm) << name;
    const auto samples = expected.at("samples").get<std::vector<double>>();
    const std::vector<int64_t> places = GoldenSampleIndices(name, static_cast<int64_t>(values.size()), kZooSamples);
    ASSERT_EQ(samples.size(), places.size()) << name;
    for (size_t j = 0; j < samples.size(); ++j) {
      EXPECT_NEAR(static_cast<double>(values[static_cast<size_t>(places[j])]), samples[j],
                  kZooTolerance * expected.at("max").get<double>())
          << name << "[" << places[j] << "]";
    }
  }

  std::map<std::string, LayerParameter> layers_;
  int64_t parameters_ = 0;
  int64_t statistics_ = 0;
};

TEST_P(ZooGolden, CountsAndForwardPassAgree) {
  BuiltNet net = Build();
  ParameterStore store;
  Fill(net, store);
  EXPECT_EQ(parameters_, golden().at("parameter_count").get<int64_t>());
  EXPECT_EQ(statistics_, golden().at("statistic_count").get<int64_t>());
  const Json& tops = golden().at("tops");
  size_t compared = 0;
  for (const auto& [name, value] : net.trace) {
    if (!tops.contains(name)) continue;
    net.graph.AddOutput(name, value);
    ++compared;
  }
  ASSERT_EQ(compared, tops.size());
  CompileOptions options;
  options.inference = true;
  options.releases_states = true;
  const auto program = Compile(std::move(net.graph), store, options);
  const Tensor data = program->input("data");
  std::ranges::copy(GoldenPicture(data.shape().Count()), data.as<float>().begin());
  program->Run();
  for (const auto& [name, expected] : tops.items()) ExpectTop(name, expected, program->output(name));
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooGolden, testing::ValuesIn(Names()), [](const auto& one) { return one.param; });

}  // namespace
}  // namespace moka

// SSD300 against torchvision's on shared weights (tests/golden/make_ssd300_golden.py): the number of parameters, what
// the heads say, the default boxes and the detections, through the program that inference runs.
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

using Ssd300Json = nlohmann::json;

constexpr double kSsd300Tolerance = 1e-4;
constexpr int64_t kSsd300Samples = 256;
constexpr size_t kSsd300Columns = 7;  // image, class, score, four corners

class Ssd300Test : public testing::Test {
 protected:
  Ssd300Test() : golden_(Ssd300Json::parse(std::ifstream(StrCat(MOKA_SOURCE_DIR, "/tests/golden/nets/ssd300.json")))) {}

  BuiltNet Build() {
    NetOptions options;
    options.state.set_phase(TEST);
    options.state.add_stage("deploy");
    NetParameter net = FilterNet(ReadNet(StrCat(MOKA_SOURCE_DIR, "/models/ssd300/train_val.prototxt")), options.state);
    for (LayerParameter& layer : *net.mutable_layer()) {
      if (layer.type() == "DetectionOutput") {
        layer.mutable_detection_output_param()->set_confidence_threshold(golden_.at("score").get<float>());
      }
      layers_[layer.name()] = layer;
    }
    const Shape input(golden_.at("input_shape").get<std::vector<int64_t>>());
    options.data_types = [input](const LayerParameter&) {
      return std::vector<TensorType>{{DType::kFloat32, input, {}}, {DType::kFloat32, Shape{1, 1, 1, 8}, {}}};
    };
    return BuildNet(net, options);
  }

  // Returns how many there are.
  int64_t Fill(const BuiltNet& net, ParameterStore& store) {
    int64_t parameters = 0;
    for (const NetBlob& blob : net.blobs) {
      std::vector<float> values = GoldenParameter(blob, layers_.at(blob.layer));
      if (layers_.at(blob.layer).type() == "Normalize") {
        for (float& v : values) v = static_cast<float>(20 * (1 + static_cast<double>(v)));
      }
      store.Add(blob.name, blob.shape);
      store.Set(blob.name, values);
      parameters += blob.shape.Count();
    }
    return parameters;
  }

  std::unique_ptr<Program> Run() {
    BuiltNet net = Build();
    EXPECT_EQ(Fill(net, store_), golden_.at("parameter_count").get<int64_t>());
    for (const auto& [name, top] : golden_.at("tops").items()) net.graph.AddOutput(name, net.tops.at(name));
    net.graph.AddOutput("detections", net.tops.at("detection_out"));
    CompileOptions compile;
    compile.inference = true;
    std::unique_ptr<Program> program = Compile(std::move(net.graph), store_, compile);
    const Tensor data = program->input("data");
    std::ranges::copy(GoldenPicture(data.shape().Count()), data.as<float>().begin());
    program->Run();
    return program;
  }

  Ssd300Json golden_;
  std::map<std::string, LayerParameter> layers_;
  ParameterStore store_;
};

void ExpectSsd300Top(const std::string& name, const Ssd300Json& expected, const Tensor& found) {
  EXPECT_EQ(found.shape(), Shape(expected.at("shape").get<std::vector<int64_t>>())) << name;
  const std::span<const float> values = found.as<const float>();
  double squares = 0;
  for (const float v : values) squares += double{v} * double{v};
  const double norm = expected.at("norm").get<double>();
  EXPECT_NEAR(std::sqrt(squares), norm, kSsd300Tolerance * norm) << name;
  const auto samples = expected.at("samples").get<std::vector<double>>();
  const std::vector<int64_t> places = GoldenSampleIndices(name, std::ssize(values), kSsd300Samples);
  ASSERT_EQ(samples.size(), places.size()) << name;
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_NEAR(double{values[static_cast<size_t>(places[i])]}, samples[i],
                kSsd300Tolerance * expected.at("max").get<double>())
        << name << "[" << places[i] << "]";
  }
}

TEST_F(Ssd300Test, CountsHeadsDefaultBoxesAndDetectionsAgreeWithTorchvision) {
  const std::unique_ptr<Program> program = Run();
  for (const auto& [name, expected] : golden_.at("tops").items()) {
    ExpectSsd300Top(name, expected, program->output(name));
  }
  const auto wanted = golden_.at("detections").get<std::vector<std::vector<double>>>();
  const std::span<const float> all = program->output("detections").as<const float>();
  ASSERT_GE(all.size(), wanted.size() * kSsd300Columns);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::span<const float> row = all.subspan(i * kSsd300Columns, kSsd300Columns);
    EXPECT_EQ(row[0], 0) << "row " << i;
    EXPECT_EQ(double{row[1]}, wanted[i][0]) << "row " << i;
    for (size_t k = 1; k < wanted[i].size(); ++k) {
      EXPECT_NEAR(double{row[k + 1]}, wanted[i][k], kSsd300Tolerance) << "row " << i << ", column " << k + 1;
    }
  }
  for (const float v : all.subspan(wanted.size() * kSsd300Columns)) ASSERT_EQ(v, -1) << "a detection too many";
}

}  // namespace
}  // namespace moka

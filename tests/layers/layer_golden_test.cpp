// Every case of tests/golden/layers*.json (single layers run by an independent engine in float64; layers.json by
// make_layer_goldens.py, layers_GROUP.json by make_GROUP_goldens.py) through BuildNet, Differentiate and the
// interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "layers/net/fork_types.h"
#include "net_run.h"

namespace moka {
namespace {

using Json = nlohmann::json;

std::vector<Json> Cases() {
  std::vector<Json> cases;
  for (const auto& path : ListFiles(StrCat(MOKA_SOURCE_DIR, "/tests/golden"), ".json")) {
    if (!path.filename().string().starts_with("layers")) continue;
    std::ifstream file(path);
    std::ranges::move(Json::parse(file).at("cases").get<std::vector<Json>>(), std::back_inserter(cases));
  }
  return cases;
}

std::vector<double> Data(const Json& tensor, const char* key) { return tensor.at(key).get<std::vector<double>>(); }

// Differences relative to the largest magnitude of the expected values (at least 1).
void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double scale = 1;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-6 * scale) << what << " at " << i;
  }
}

class LayerGolden : public testing::TestWithParam<Json> {
 protected:
  // The net of the case, its bottoms as Input layers.
  void SetUp() override {
    const Json& c = GetParam();
    std::string text;
    for (const Json& bottom : c.at("bottoms")) {
      const std::string name = StrCat("x", bottoms_.size());
      text += InputText(name, bottom.at("shape").get<std::vector<int64_t>>());
      feeds_[name] = Data(bottom, "data");
      bottoms_.push_back(name);
    }
    try {
      net_ = std::make_unique<BuiltNet>(
          BuildText(text + c.at("layer").get<std::string>(), c.at("phase") == "TEST" ? TEST : TRAIN));
    } catch (const Error& error) {
      if (!IsWithoutForks() || !StrCat(error.what()).ends_with(kWithoutForks)) throw;
      GTEST_SKIP() << error.what();
    }
    for (const NetBlob& blob : net_->blobs) feeds_[blob.name] = Data(c.at("params").at(params_++), "data");
  }

  // sum over tops of sum(weight * top).
  ValueId Objective() {
    const GraphBuilder b(net_->graph, {});
    std::vector<ValueId> parts;
    int i = 0;
    for (const Json& top : GetParam().at("tops")) {
      const ValueId y = net_->tops.at(StrCat("y", i));
      if (top.contains("weight")) {
        const std::string name = StrCat("weight", i);
        const ValueId weight = net_->graph.AddInput(name, {DType::kFloat32, b.shape(y), {}});
        feeds_[name] = Data(top, "weight");
        parts.push_back(b.SumAll(b.Pointwise("x0*x1", {y, weight})));
      }
      ++i;
    }
    if (parts.empty()) return kNoId;
    ValueId sum = parts.front();
    for (size_t part = 1; part < parts.size(); ++part) sum = b.Pointwise("x0+x1", {sum, parts[part]});
    return sum;
  }

  void ExpectGradient(const std::string& name, ValueId dx, const std::vector<double>& expected) {
    const std::vector<double> zeros(expected.size(), 0.0);
    ExpectNear(dx == kNoId ? zeros : Evaluate(net_->graph, feeds_, {dx}).front().values, expected,
               StrCat("gradient of ", name));
  }

  std::vector<std::string> bottoms_;
  std::unique_ptr<BuiltNet> net_;
  Feeds feeds_;
  size_t params_ = 0;
};

TEST_P(LayerGolden, TopsEqualPyTorch) {
  int i = 0;
  EXPECT_EQ(params_, GetParam().at("params").size());
  for (const Json& top : GetParam().at("tops")) {
    const std::string name = StrCat("y", i++);
    const Shape& shape = net_->graph.shape(net_->tops.at(name));
    EXPECT_EQ(std::vector<int64_t>(shape.dims().begin(), shape.dims().end()),
              top.at("shape").get<std::vector<int64_t>>());
    ExpectNear(TopValues(*net_, feeds_, name), Data(top, "data"), name);
  }
}

TEST_P(LayerGolden, GradientsEqualPyTorch) {
  const ValueId objective = Objective();
  std::vector<ValueId> wanted;
  std::vector<std::pair<std::string, Json>> expected;
  for (size_t i = 0; i < bottoms_.size(); ++i) {
    const Json& bottom = GetParam().at("bottoms").at(i);
    if (!bottom.contains("gradient")) continue;
    wanted.push_back(IdOf(net_->graph, bottoms_[i]));
    expected.emplace_back(bottoms_[i], bottom);
  }
  for (size_t i = 0; i < net_->blobs.size(); ++i) {
    const Json& param = GetParam().at("params").at(i);
    if (!param.contains("gradient")) continue;
    wanted.push_back(net_->blobs[i].state);
    expected.emplace_back(net_->blobs[i].name, param);
  }
  if (expected.empty()) return;
  ASSERT_NE(objective, kNoId);
  const std::vector<ValueId> dx = Differentiate(net_->graph, objective, wanted);
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectGradient(expected[i].first, dx[i], Data(expected[i].second, "gradient"));
  }
}

TEST_P(LayerGolden, StatisticsEqualPyTorch) {
  for (size_t i = 0; i < net_->blobs.size(); ++i) {
    const Json& param = GetParam().at("params").at(i);
    if (!param.contains("after")) continue;
    const NetBlob& blob = net_->blobs[i];
    ValueId value = blob.state;
    for (const Assignment& assignment : net_->graph.assignments()) {
      if (assignment.state == blob.state) value = assignment.value;
    }
    ExpectNear(Evaluate(net_->graph, feeds_, {value}).front().values, Data(param, "after"), blob.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LayerGolden, testing::ValuesIn(Cases()), [](const auto& test) {
  std::string name = test.param.at("name").template get<std::string>();
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace moka

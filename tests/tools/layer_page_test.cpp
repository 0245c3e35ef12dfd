// The reference pages of all layers: complete, equal to docs/layers, and their examples run.
#include "tools/nets/layer_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/interpreter.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

class LayerPageTest : public testing::TestWithParam<LayerDef> {};

BuiltNet BuildExample(const LayerDef& layer) {
  const NetParameter net = NetFromText(layer.page.example, "example");
  NetOptions options;
  options.state.set_phase(net.state().has_phase() ? net.state().phase() : TRAIN);
  options.data_types = GuessDataTypes();
  return BuildNet(net, options);
}

// Values in [0.1, 0.9], so that logarithms exist and boxes lie in the image; labels are 0.
RefTensor Values(const TensorType& type, const std::string& name, uint64_t stream) {
  RefTensor tensor{type, std::vector<double>(static_cast<size_t>(type.shape.Count()))};
  if (name.find("label") != std::string::npos) return tensor;
  RandomStream random(stream, 0);
  for (double& value : tensor.values) {
    value = IsFloat(type.dtype) ? 0.1 + 0.8 * static_cast<double>(random.Below(1000)) / 1000 : 0;
  }
  return tensor;
}

TEST_P(LayerPageTest, IsComplete) {
  const LayerPage& page = GetParam().page;
  EXPECT_GT(GetParam().doc.size(), 20U);
  EXPECT_FALSE(page.formula.empty());
  EXPECT_FALSE(page.gradient.empty());
  EXPECT_FALSE(page.source.empty());
  EXPECT_NE(page.example.find(StrCat("type: \"", GetParam().type, "\"")), std::string::npos);
}

TEST_P(LayerPageTest, ItsExampleRuns) {
  const BuiltNet net = BuildExample(GetParam());
  std::map<ValueId, RefTensor> fed;
  for (ValueId id = 0; id < net.graph.value_count(); ++id) {
    if (net.graph.value(id).kind != ValueKind::kResult) {
      fed[id] = Values(net.graph.type(id), net.graph.value(id).name, static_cast<uint64_t>(id));
    }
  }
  std::vector<ValueId> wanted;
  for (const auto& [name, value] : net.trace) wanted.push_back(value);
  for (const RefTensor& tensor : Interpret(net.graph, fed, wanted)) {
    for (const double value : tensor.values) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(LayerPageTest, EqualsItsFile) {
  const std::string file = StrCat(MOKA_SOURCE_DIR, "/docs/layers/", GetParam().type, ".md");
  EXPECT_EQ(ReadFile(file), LayerPageText(GetParam())) << "run `moka explain layer --write docs/layers`";
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerPageTest, testing::ValuesIn(AllLayers()),
                         [](const auto& test) { return test.param.type; });

TEST(LayerIndexTest, EqualsItsFile) {
  EXPECT_EQ(ReadFile(StrCat(MOKA_SOURCE_DIR, "/docs/layers/README.md")), LayerIndexText());
}

}  // namespace
}  // namespace moka

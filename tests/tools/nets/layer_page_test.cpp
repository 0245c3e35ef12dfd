// The reference pages of all layers: complete, one a type beside its source, listed, and their examples run.
#include "tools/nets/layer_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/interpreter.h"
#include "layers/net/manual_page.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LayerPageTest : public testing::TestWithParam<LayerDef> {};

BuiltNet BuildExample(const LayerDef& layer) {
  const NetParameter net = NetFromText(ManualPageOf(layer.type).example, "example");
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
  const ManualPage& page = ManualPageOf(GetParam().type);
  EXPECT_GT(page.doc.size(), 20U);
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

TEST_P(LayerPageTest, IsPrintedWithWhatTheProgramKnows) {
  const std::string text = LayerPageText(GetParam());
  EXPECT_TRUE(text.starts_with(StrCat("# ", GetParam().type, "\n\n", ManualPageOf(GetParam().type).doc)));
  EXPECT_THAT(text, AllOf(HasSubstr("\n\nBottoms: "), HasSubstr("\n\n## Fields\n\n")));
  for (const std::string& param : GetParam().params) EXPECT_THAT(text, HasSubstr(StrCat("\n### `", param, "`\n")));
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerPageTest, testing::ValuesIn(AllLayers()),
                         [](const auto& test) { return test.param.type; });

TEST(LayerPagesTest, APrintedPageHasCountsAndDefaults) {
  EXPECT_THAT(LayerPageText(*FindLayer("ReLU")),
              AllOf(HasSubstr("\n\nBottoms: 1. Tops: 1 to 2.\n\n"),
                    HasSubstr("\n| `negative_slope` | float | 0 |  |\n"), HasSubstr("\n- top `relu` [2,3,8,8]\n")));
  EXPECT_THAT(LayerPageText(*FindLayer("Python")),
              AllOf(HasSubstr(" Known:\n"), HasSubstr("\npyloss.EuclideanLossLayer: half the mean")));
  EXPECT_THAT(LayerIndexText(), HasSubstr("\n- [ReLU](ReLU.md): x if x > 0, else negative_slope * x (default 0); "));
}

// "k1euclideanloss" of K1_EuclideanLoss and of k1_euclidean_loss.
std::string Squashed(std::string_view name) {
  std::string text = AsciiLower(name);
  std::erase(text, '_');
  return text;
}

bool IsNamedInASourceOf(const fs::path& folder, const std::string& type) {
  const auto names_it = [&](const fs::directory_entry& entry) {
    return entry.path().extension() == ".cpp" &&
           ReadFile(entry.path().string()).find(StrCat("\"", type, "\"")) != std::string::npos;
  };
  return std::ranges::any_of(fs::directory_iterator(folder), names_it);
}

TEST(LayerPagesTest, EachIsOfATypeNamedForItAndBesideItsSource) {
  std::set<std::string> types;
  for (const ManualFile& file : ManualFiles()) {
    const fs::path path = fs::path(MOKA_SOURCE_DIR) / file.path;
    const std::string type = ReadManualPage(file).type;
    EXPECT_TRUE(types.insert(type).second) << file.path << ": a second page of " << type;
    EXPECT_NE(FindLayer(type), nullptr) << file.path;
    EXPECT_TRUE(IsNamedInASourceOf(path.parent_path(), type)) << file.path;
    // Where types differ by case only, the page of one is named as its source (Lstm: caffe_lstm.md) or has a word
    // behind the type's name.
    const fs::path source = fs::path(path).replace_extension(".cpp");
    EXPECT_TRUE(Squashed(path.stem().string()).starts_with(Squashed(type)) || fs::exists(source)) << file.path;
  }
  EXPECT_EQ(types.size(), AllLayers().size());
}

TEST(LayerPagesTest, AreListedInTheDocumentationOnceEach) {
  const std::string index = ReadFile(StrCat(MOKA_SOURCE_DIR, "/docs/layers.md"));
  static const std::regex link(R"(\[(\w+)\]\(\.\./([^)]+)\))");
  std::map<std::string, std::string> listed;  // path to type
  for (std::sregex_iterator each(index.begin(), index.end(), link); each != std::sregex_iterator(); ++each) {
    EXPECT_TRUE(listed.emplace((*each)[2], (*each)[1]).second) << each->str();
    EXPECT_TRUE(fs::exists(fs::path(MOKA_SOURCE_DIR) / (*each)[2].str())) << each->str();
  }
  for (const ManualFile& file : ManualFiles()) {
    const ManualPage page = ReadManualPage(file);
    EXPECT_EQ(listed[std::string(file.path)], page.type)
        << "docs/layers.md lacks [" << page.type << "](../" << file.path << ")";
  }
}

}  // namespace
}  // namespace moka

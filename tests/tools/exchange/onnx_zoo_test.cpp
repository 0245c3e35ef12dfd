// Nets of the zoo, exported to ONNX and imported again: what is computed of made-up data by made-up weights is the same
// to the last bit. A net that has no form in ONNX is left out; how many are not is counted.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "tools/exchange/import/onnx_import.h"
#include "tools/exchange/onnx_export.h"
#include "tools/measure/made_up_data.h"
#include "tools/nets/deploy_net.h"
#include "tools/zoo/entry.h"
#include "tools/zoo/net_values.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The test net of the entry's first recipe, over made-up data.
NetParameter MadeTest(const ZooEntry& entry) {
  const ZooCheck& check = entry.card.check();
  const RecipeNets recipe = ReadRecipe(entry, entry.card.recipe(0), {check.override().begin(), check.override().end()});
  return WithMadeUpData(recipe.nets.tests.at(0), check, check.batch());
}

// The bytes of the net as an ONNX file for its own number of images. Errors: those of ExportOnnx.
std::string Exported(const NetParameter& net, const std::vector<std::string>& outputs, ParameterStore& store,
                     const fs::path& file) {
  BuiltNet built = BuildAsIs(net);
  for (const std::string& output : outputs) built.graph.AddOutput(output, built.tops.at(output));
  PrepareForExport(built.graph, store);
  OnnxModel model = ExportOnnx({.name = net.name(), .graphs = {.graph = &built.graph}, .store = &store}, {});
  WriteOnnxModel(file, std::move(model), false);
  return ReadFile(file, int64_t{1} << 31);
}

// The difference between the entry's net and the one that comes back; empty: none.
std::string DifferenceOf(const ZooEntry& entry, const fs::path& file) {
  const NetParameter test = MadeTest(entry);
  const NetParameter deployed = DeployedNet(entry, test);
  const Blobs batch = MadeUpBatch(test);
  ParameterStore store;
  BuiltNet built = BuildAsIs(deployed);
  FillStore(built, store);
  std::vector<std::string> outputs;
  for (const BuiltNet::Output& output : built.outputs) outputs.push_back(output.name);
  OnnxFile onnx = OnnxFileFromBytes(Exported(deployed, outputs, store, file), "net.onnx", {});
  const ImportedNet imported = ImportOnnx(std::move(onnx), {});
  BuiltNet back = BuildAsIs(imported.net);
  ParameterStore other;
  AddBlobs(back.blobs, 1, other);
  if (!imported.weights.empty()) LoadWeights({.blobs = imported.weights}, "net.onnx", back.blobs, other);
  const Blobs first = RunOnce(std::move(built), batch, outputs, store);
  const Blobs second = RunOnce(std::move(back), batch, imported.outputs, other);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const BlobValues& a = first.at(outputs[i]);
    const BlobValues& b = second.at(imported.outputs.at(i));
    if (a.shape != b.shape) return StrCat(outputs[i], ": ", a.shape.ToString(), " and ", b.shape.ToString());
    if (std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0) continue;
    size_t at = 0;
    while (std::memcmp(&a.values[at], &b.values[at], sizeof(float)) == 0) ++at;
    return StrCat(outputs[i], ": ", a.values[at], " and ", b.values[at], " at ", at);
  }
  return {};
}

TEST(OnnxZoo, NetsComeBackToTheLastBit) {
  const fs::path models = fs::path(MOKA_SOURCE_DIR) / "models";
  const fs::path file = fs::temp_directory_path() / StrCat("moka_onnx_zoo_", getpid(), ".onnx");
  int count = 0;
  for (const fs::directory_entry& folder : fs::directory_iterator(models)) {
    if (!folder.is_directory()) continue;
    const std::string name = folder.path().filename().string();
    try {
      const std::string difference = DifferenceOf(ReadEntry(models, name), file);
      EXPECT_EQ(difference, "") << name;
      ++count;
    } catch (const Error& error) {
      const std::string_view what = error.what();
      const bool is_boxes = what.find("op TopK has no form") != std::string_view::npos;  // they go one way alone
      const bool is_no_form = is_boxes || what.find("cannot be exported") != std::string_view::npos;
      std::printf("%s: %s\n", name.c_str(), error.what());
      EXPECT_TRUE(is_no_form || error.kind() == ErrorKind::kConfig) << name;
    }
  }
  fs::remove(file);
  EXPECT_GE(count, 35);
}

}  // namespace
}  // namespace moka

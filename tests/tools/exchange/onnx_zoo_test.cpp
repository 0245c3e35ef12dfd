// Nets of the zoo, exported to ONNX and imported again: what is computed of made-up data by made-up weights is the same
// to the last bit. A net that has no form in ONNX is left out; how many are not is counted.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// The difference between the net and the one that comes back, of which `back` is set; empty: none.
std::string DifferenceOf(const NetParameter& deployed, const Blobs& batch, const fs::path& file,
                         NetParameter& back_net) {
  ParameterStore store;
  BuiltNet built = BuildAsIs(deployed);
  FillStore(built, store);
  std::vector<std::string> outputs;
  for (const BuiltNet::Output& output : built.outputs) outputs.push_back(output.name);
  OnnxFile onnx = OnnxFileFromBytes(Exported(deployed, outputs, store, file), "net.onnx", {});
  const ImportedNet imported = ImportOnnx(std::move(onnx), {});
  back_net = imported.net;
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

// Boxes of 16 cells, each with two priors, of three classes.
std::string Detector(int64_t images, const std::string& fields, bool is_shared) {
  const auto product = [](const char* name, int64_t count) {
    return StrCat("layer { name: '", name, "' type: 'InnerProduct' bottom: 'data' top: '", name,
                  "' inner_product_param { num_output: ", count, " weight_filler { type: 'gaussian' std: 0.7 } } }\n");
  };
  return StrCat("layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: ", images,
                " dim: 1 dim: 4 dim: 4 } } }\n", product("loc", is_shared ? 128 : 384), product("conf", 96),
                "layer { name: 'prior' type: 'PriorBox' bottom: 'data' bottom: 'data' top: 'prior' prior_box_param { "
                "min_size: 2 max_size: 3 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }\n"
                "layer { name: 'boxes' type: 'DetectionOutput' bottom: 'loc' bottom: 'conf' bottom: 'prior' top: "
                "'boxes' detection_output_param { num_classes: 3 share_location: ",
                is_shared ? "true " : "false ", fields, " } }\n");
}

TEST(OnnxZoo, BoxesComeBackAsTheirLayer) {
  const fs::path file = fs::temp_directory_path() / StrCat("moka_onnx_boxes_", getpid(), ".onnx");
  const char* const kSettings[] = {
      "code_type: CENTER_SIZE confidence_threshold: 0.3 keep_top_k: 5 nms_param { nms_threshold: 0.4 top_k: 8 }",
      "code_type: CORNER nms_param { nms_threshold: 0.5 }",
      "code_type: CORNER_SIZE background_label_id: 1 keep_top_k: 40 nms_param { nms_threshold: 0.45 top_k: 400 }",
      "code_type: CENTER_SIZE variance_encoded_in_target: true background_label_id: -1 keep_top_k: 7",
      "variance_encoded_in_target: true background_label_id: 2 confidence_threshold: 1e9"};
  int count = 0;
  for (const char* fields : kSettings) {
    for (const bool is_shared : {true, false}) {
      for (const int64_t images : {1, 3}) {
        NetParameter net;
        const std::string text = Detector(images, fields, is_shared);
        ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &net)) << text;
        Blobs batch;
        BlobValues& data = batch["data"];
        data.shape = Shape{images, 1, 4, 4};
        for (int64_t i = 0; i < data.shape.Count(); ++i)
          data.values.push_back(static_cast<float>(i * 37 % 23) / 11 - 1);
        NetParameter back;
        EXPECT_EQ(DifferenceOf(net, batch, file, back), "") << text;
        const auto layer = std::ranges::find(back.layer(), "DetectionOutput", &LayerParameter::type);
        ASSERT_NE(layer, back.layer().end()) << text;
        ++count;
      }
    }
  }
  EXPECT_EQ(count, 20);
  fs::remove(file);
}

// Nodes that are nearly boxes are refused like any others.
TEST(OnnxZoo, ADamagedFormIsRefusedAtItsNodes) {
  const fs::path file = fs::temp_directory_path() / StrCat("moka_onnx_damaged_", getpid(), ".onnx");
  NetParameter net;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(Detector(1, "keep_top_k: 5", true), &net));
  ParameterStore store;
  FillStore(BuildAsIs(net), store);
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(Exported(net, {"boxes"}, store, file)));
  fs::remove(file);
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (node.op_type() != "GatherND") continue;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) attribute.set_type(onnx::AttributeProto::FLOAT);
  }
  try {
    ImportOnnx(OnnxFileFromBytes(model.SerializeAsString(), "net.onnx", {}), {});
    ADD_FAILURE() << "it was imported";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    EXPECT_NE(std::string(error.what()).find("net.onnx: op TopK has no form in layers here"), std::string::npos)
        << error.what();
  }
}

TEST(OnnxZoo, NetsComeBackToTheLastBit) {
  const fs::path models = fs::path(MOKA_SOURCE_DIR) / "models";
  const fs::path file = fs::temp_directory_path() / StrCat("moka_onnx_zoo_", getpid(), ".onnx");
  int count = 0;
  for (const fs::directory_entry& folder : fs::directory_iterator(models)) {
    if (!folder.is_directory()) continue;
    const std::string name = folder.path().filename().string();
    try {
      const ZooEntry entry = ReadEntry(models, name);
      const NetParameter test = MadeTest(entry);
      NetParameter back;
      const std::string difference = DifferenceOf(DeployedNet(entry, test), MadeUpBatch(test), file, back);
      EXPECT_EQ(difference, "") << name;
      ++count;
    } catch (const Error& error) {
      const std::string_view what = error.what();
      const bool is_no_form = what.find("cannot be exported") != std::string_view::npos;
      std::printf("%s: %s\n", name.c_str(), error.what());
      EXPECT_TRUE(is_no_form || error.kind() == ErrorKind::kConfig) << name;
    }
  }
  fs::remove(file);
  EXPECT_GE(count, 35);
}

}  // namespace
}  // namespace moka

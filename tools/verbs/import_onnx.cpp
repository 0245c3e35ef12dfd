// The steps of an import of ONNX: read, turned into layers, written, told.
#include "tools/verbs/import_onnx.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/exchange/import/imported_files.h"
#include "tools/exchange/import/node_attributes.h"
#include "tools/exchange/import/onnx_import.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// "1x3x224x224". Errors: kUsage.
Ints DimsOfText(const std::string& text) {
  Ints dims;
  for (const std::string& part : Split(text, 'x')) {
    const bool is_number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || std::stoll(part) < 1) {
      throw Error(ErrorKind::kUsage, {}, StrCat("--shape wants sizes as 1x3x224x224, found \"", Printable(text), "\""),
                  "of several inputs: --shape NAME=1x3x224x224");
    }
    dims.push_back(std::stoll(part));
  }
  return dims;
}

OnnxImportOptions OptionsOf(const Arguments& arguments) {
  constexpr int64_t kMostImages = 1 << 20;
  OnnxImportOptions options;
  if (arguments.Has("batch")) options.batch = arguments.Int("batch", 1, 1, kMostImages);
  if (!arguments.Has("shape")) return options;
  for (const std::string& part : Split(arguments.Get("shape"), ',')) {
    const size_t equals = part.rfind('=');
    const std::string name = equals == std::string::npos ? "" : part.substr(0, equals);
    if (!options.shapes.emplace(name, DimsOfText(part.substr(equals == std::string::npos ? 0 : equals + 1))).second)
      throw Error(ErrorKind::kUsage, StrCat("--shape ", Printable(name), " is given twice"));
  }
  return options;
}

int64_t CastsToHalf(const OnnxFile& file) {
  return std::ranges::count_if(file.nodes, [](const onnx::NodeProto& node) {
    if (node.op_type() != "Cast") return false;
    const int64_t to = NodeAttributes(node).Int("to", 0);
    return to == onnx::TensorProto::FLOAT16 || to == onnx::TensorProto::BFLOAT16;
  });
}

// The net's inputs as people write them: "data [1,3,224,224]".
std::vector<std::string> InputTexts(const ImportedNet& imported) {
  std::vector<std::string> texts;
  for (const LayerParameter& layer : imported.net.layer()) {
    if (!layer.has_input_param()) continue;
    std::vector<std::string> dims;
    for (const int64_t dim : layer.input_param().shape(0).dim()) dims.push_back(std::to_string(dim));
    if (imported.is_batch_open && !dims.empty()) dims.front() = "N";
    texts.push_back(StrCat(Printable(layer.top(0)), " [", Join(dims, ","), "]"));
  }
  return texts;
}

}  // namespace

int ImportOnnxFile(const Arguments& arguments) {
  const fs::path file = arguments.Word(0, "an ONNX file");
  const OnnxImportOptions options = OptionsOf(arguments);
  const fs::path folder = arguments.Get("out", file.stem().string());
  const bool is_dry = arguments.Has("dry-run");
  const bool as_json = arguments.Has("json");
  arguments.RefuseUnread();
  if (!is_dry) CheckImportFolder(folder);
  OnnxFile onnx = ReadOnnxFile(file);
  if (onnx.rounded > 0) LogWarning(StrCat(onnx.rounded, " constants of float64 are rounded to float32"));
  if (const int64_t casts = CastsToHalf(onnx); casts > 0)
    LogWarning(StrCat(casts, " casts to float16 or bfloat16 round nothing: the net computes in float32"));
  const std::map<std::string, std::string> metadata = onnx.metadata;
  const std::string producer = onnx.producer;
  const int64_t opset = onnx.opset;
  const ImportedNet imported = ImportOnnx(std::move(onnx), options);
  const std::vector<fs::path> written =
      is_dry ? std::vector<fs::path>{} : WriteImported(folder, imported, metadata, file.filename().string());
  int64_t parameters = 0;
  for (const NamedBlob& blob : imported.weights) parameters += blob.shape.Count();
  if (as_json) {
    nlohmann::json json = {{"folder", folder.string()},
                           {"opset", opset},
                           {"producer", producer},
                           {"nodes", imported.nodes},
                           {"layers", imported.net.layer_size()},
                           {"parameters", parameters},
                           {"inputs", InputTexts(imported)},
                           {"outputs", imported.outputs}};
    if (!imported.ranges.convolutions.empty()) json["int8_convolutions"] = imported.ranges.convolutions.size();
    json["written"] = nlohmann::json::array();
    for (const fs::path& one : written) json["written"].push_back(one.string());
    PrintJson(json);
    return 0;
  }
  std::vector<std::string> outputs;
  for (const std::string& output : imported.outputs) outputs.push_back(Printable(output));
  Print("{} {} (opset {}{}{}; {} layers, {} parameters): {} -> {}\n", is_dry ? "would write" : "wrote",
        Printable(folder.string()), opset, producer.empty() ? "" : ", ", Printable(producer), imported.net.layer_size(),
        parameters, Join(InputTexts(imported), ", "), Join(outputs, ", "));
  if (!imported.ranges.convolutions.empty()) {
    Print("{} convolutions have ranges of 8-bit integers: --int8 {}\n", imported.ranges.convolutions.size(),
          Printable((folder / kRangesName).string()));
  }
  return 0;
}

}  // namespace moka

// Both files are checked for their places before anything is read, and each is written whole.
#include "tools/exchange/torch_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "optim/checkpoint/weights_file.h"
#include "proto/nets/net_file.h"
#include "tools/cli/print.h"
#include "tools/exchange/torch_import.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

std::string NumbersOf(const auto& numbers) {
  std::vector<std::string> texts;
  for (const float number : numbers) texts.push_back(fmt::format("{}", number));
  return Join(texts, ", ");
}

// Where a net's mean and deviation stand, of the first layer that they were set in.
const TransformationParameter& InputFields(const ImportedWeights& imported) {
  for (const LayerParameter& layer : imported.net.layer()) {
    if (layer.name() == imported.inputs.front()) return layer.transform_param();
  }
  ThrowBrokenPromise("a layer that was changed is the net's");
}

struct Files {
  fs::path weights;
  fs::path net;
};

Files FilesOf(const Arguments& arguments, const fs::path& net) {
  const fs::path folder = net.has_parent_path() ? net.parent_path() : fs::path(".");
  std::error_code code;
  const std::string name = fs::canonical(folder, code).filename().string();
  Files files{.weights = arguments.Get("out", name + ".safetensors"), .net = {}};
  CheckWeightsFile(files.weights);
  files.net = files.weights;
  if (files.net.extension() == ".h5") files.net.replace_extension();
  files.net.replace_extension(".prototxt");
  for (const fs::path& file : {files.weights, files.net}) {
    for (const fs::path& source : {fs::path(arguments.positionals[0]), net}) {
      if (!fs::equivalent(file, source, code)) continue;
      throw Error(ErrorKind::kUsage, {},
                  StrCat(Printable(file.string()), " would take the place of what it is made of"),
                  "--out FILE says another place");
    }
  }
  return files;
}

void PrintImport(const ImportedWeights& imported, const Files& files, bool is_dry, bool as_json) {
  int64_t values = 0;
  for (const NamedBlob& blob : imported.blobs) values += std::ssize(blob.values);
  if (as_json) {
    nlohmann::json json = {{"weights", files.weights.string()},
                           {"net", files.net.string()},
                           {"module", imported.names.module},
                           {"tensors", imported.tensors},
                           {"blobs", imported.blobs.size()},
                           {"values", values},
                           {"left_out", imported.left_out},
                           {"fresh", imported.fresh},
                           {"swapped", imported.swapped},
                           {"inputs", imported.inputs},
                           {"written", !is_dry}};
    return PrintJson(json);
  }
  const char* done = is_dry ? "would write" : "wrote";
  Print("{} {}: {} blobs, {} values, from {} tensors of {}\n", done, files.weights.string(), imported.blobs.size(),
        values, imported.tensors, imported.names.module);
  if (!imported.left_out.empty()) {
    Print("left out {} tensors of a part that the net lacks: {}, ...\n", imported.left_out.size(),
          imported.left_out.front());
  }
  if (imported.inputs.empty()) {
    Print("{} {}: the net\n", done, files.net.string());
    return;
  }
  const TransformationParameter& fields = InputFields(imported);
  Print("{} {}: the net, to which \"{}\" gives pictures (B,G,R, 0..255) minus {}, divided by {}\n", done,
        files.net.string(), Join(imported.inputs, "\", \""), NumbersOf(fields.mean_value()),
        NumbersOf(fields.std_value()));
  Print("swapped the input channels of {} from R,G,B to B,G,R\n", Join(imported.swapped, ", "));
}

}  // namespace

int ImportTorchFile(const Arguments& arguments) {
  if (!arguments.Has("net")) {
    throw Error(ErrorKind::kUsage, {}, "--net is missing: whose weights are these?",
                "--net models/NAME names a net with a names.torch.tsv; data go into a database by moka data import");
  }
  const fs::path net = FindConfig(PathOfWord(arguments.Get("net")).string(), "train_val.prototxt");
  const fs::path weights = arguments.positionals[0];
  const Files files = FilesOf(arguments, net);
  const bool is_dry = arguments.Has("dry-run");
  const bool as_json = arguments.Has("json");
  const std::vector<std::string> overrides = arguments.overrides;
  arguments.RefuseUnread();
  const ImportedWeights imported = ImportTorchWeights(weights, net, overrides);
  if (!is_dry) {
    WriteWeightsFile(files.weights, imported.net, imported.blobs);
    WriteFileAtomically(files.net, NetToText(imported.net));
  }
  PrintImport(imported, files, is_dry, as_json);
  return 0;
}

}  // namespace moka

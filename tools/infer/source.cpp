#include "tools/infer/source.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/text.h"
#include "data/class_names.h"
#include "optim/checkpoint.h"
#include "optim/net_weights.h"
#include "optim/update.h"
#include "proto/filter.h"
#include "proto/model_card.h"
#include "proto/net_file.h"
#include "tools/checkpoint_source.h"
#include "tools/net_source.h"
#include "tools/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsPictureFile(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".bmp" ||
         extension == ".webp" || extension == ".gif";
}

}  // namespace

InferSource InferSourceOf(const Arguments& arguments) {
  if (!arguments.Has("model") && arguments.positionals.empty()) {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or a deploy prototxt",
                "see moka infer --help");
  }
  InferSource source;
  const fs::path config = arguments.Has("model") ? arguments.Get("model") : arguments.positionals.at(0);
  std::error_code code;
  const bool is_run = fs::is_directory(config / "checkpoints", code);
  source.net = FindConfig(config.string(), is_run ? "net.prototxt" : "deploy.prototxt");
  source.folder = source.net.parent_path();
  if (arguments.Has("weights")) {
    source.weights = arguments.Get("weights");
  } else if (is_run) {
    source.weights = FindCheckpoint(config.string(), "runs").string();
  } else {
    throw Error(ErrorKind::kUsage, {}, "no weights: this is no run with a checkpoint", "give --weights FILE");
  }
  source.card = ModelCardOf(source.folder);
  fs::path labels = arguments.Get("labels");
  for (const fs::path& folder : {config, source.folder}) {
    if (labels.empty() && fs::exists(folder / "labels.txt", code)) labels = folder / "labels.txt";
  }
  if (!labels.empty()) source.names = ReadNameLines(labels);
  source.overrides = arguments.overrides;
  source.compile = CompileOptionsOf(arguments);
  source.has_precision = arguments.Has("precision");
  return source;
}

NetParameter InferNet(const InferSource& source) {
  NetState state;
  state.set_phase(TEST);
  state.add_stage("deploy");
  NetReadOptions read;
  read.overrides = source.overrides;
  return FilterNet(ReadNet(source.net, read), state);
}

void LoadInferWeights(const InferSource& source, std::span<const NetBlob> blobs, ParameterStore& store) {
  LoadWeightFiles(source.weights, blobs, store);
  fs::path state = source.weights;
  fs::path manifest = source.weights;
  std::error_code code;
  if (!fs::exists(state.replace_extension(".state"), code)) return;
  if (!fs::exists(manifest.replace_extension(".sha256"), code)) return;
  for (const auto& [name, tensor] : LoadCheckpoint(source.weights).slots) {
    const auto blob =
        std::ranges::find_if(blobs, [&](const NetBlob& one) { return SlotName(one.name, kEmaSlot) == name; });
    if (blob != blobs.end() && tensor.shape == blob->shape) store.Set(blob->name, tensor.values);
  }
}

std::string NameOf(const InferSource& source, int64_t label) {
  const bool is_named = label >= 0 && label < static_cast<int64_t>(source.names.size());
  return is_named ? source.names[static_cast<size_t>(label)] : std::to_string(label);
}

std::vector<fs::path> PicturesOf(const std::vector<std::string>& arguments) {
  std::vector<fs::path> files;
  for (const std::string& argument : arguments) {
    std::error_code code;
    if (!fs::is_directory(argument, code)) {
      files.emplace_back(argument);
      continue;
    }
    std::vector<fs::path> inside;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argument)) {
      if (entry.is_regular_file() && IsPictureFile(entry.path())) inside.push_back(entry.path());
    }
    if (inside.empty()) throw Error(ErrorKind::kNoInput, StrCat("no pictures in ", Printable(argument)));
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace moka

// moka model convert: weights and solver states between Caffe's formats, safetensors and the checkpoints of runs.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net/net.h"
#include "optim/checkpoint/caffe_state.h"
#include "optim/checkpoint/checkpoint.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/weights_file.h"
#include "proto/nets/net_file.h"
#include "proto/weights/weights.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsStateName(const std::string& name) {
  return name.ends_with(".solverstate") || name.ends_with(".solverstate.h5");
}

// Where weights come from: a file, or a checkpoint with all it knows.
struct Source {
  Weights weights;
  NetParameter net;  // without layers if nothing says them
  std::optional<Checkpoint> checkpoint;
};

// The base of a checkpoint whose weights the file is.
std::optional<fs::path> CheckpointOf(const fs::path& file) {
  std::error_code code;
  if (file.extension() != ".safetensors") return std::nullopt;
  fs::path base = BehindLink(file);
  base.replace_extension();
  fs::path manifest = base;
  manifest += ".sha256";
  return fs::exists(manifest, code) ? std::optional(base) : std::nullopt;
}

// The net of a phase without its data. Errors: those of building it.
BuiltNet NetInPhase(const NetParameter& net, Phase phase) {
  NetOptions options;
  options.state.set_phase(phase);
  options.data_types = GuessDataTypes();
  return BuildNet(net, options);
}

// Whether the weights are a net's. Errors: those of LoadTrainedWeights, with what no phase of the net lacks left out.
void CheckWeightsOf(const NetParameter& net, const std::string& net_file, const Weights& weights,
                    const std::string& file) {
  std::optional<WeightsLoaded> best;
  std::optional<Error> failure;
  std::vector<std::string> strangers;  // layers that the net has in no phase
  for (const Phase phase : {TEST, TRAIN}) {
    try {
      const BuiltNet built = NetInPhase(net, phase);
      ParameterStore store;
      for (const NetBlob& blob : built.blobs) {
        if (!store.Has(blob.name)) store.Add(blob.name, blob.shape);
      }
      const WeightsLoaded loaded = LoadWeights(weights, file, built.blobs, store);
      if (best) {
        std::erase_if(strangers, [&](const std::string& layer) {
          return std::ranges::find(loaded.ignored, layer) == loaded.ignored.end();
        });
      } else {
        strangers = loaded.ignored;
      }
      if (!best || loaded.missing.size() < best->missing.size()) best = loaded;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBadData) throw;
      if (!failure) failure = error;
    }
  }
  if (!best) {
    LogWarning(StrCat(
        net_file, " cannot be built without its data, so nothing says whether the weights are its: ", failure->what()));
    return;
  }
  if (!best->missing.empty()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(file), ": no weights of ", best->missing.size() == 1 ? "layer " : "layers ",
                       Join(best->missing, ", "), ", which ", Printable(net_file), " needs"),
                "without --model, the file's own layers are converted");
  }
  if (!strangers.empty()) {
    LogWarning(
        StrCat(Printable(net_file), " has no layers ", Join(strangers, ", "), ", whose weights go beside its own"));
  }
}

Source ReadSource(const Arguments& arguments) {
  fs::path from = arguments.positionals[0];
  std::error_code code;
  const fs::path runs = arguments.Get("runs", "runs");
  if (!fs::exists(from, code) || fs::is_directory(from, code)) {
    const std::string name = from.string();
    if (!FindNamedRun(name, runs) && name.find('@') == std::string::npos) {
      throw Error(ErrorKind::kNoInput, {}, StrCat("no file or run ", Printable(name)),
                  DidYouMean(name, RunNames(runs)));
    }
    from = FindCheckpoint(name, runs);
  }
  Source source;
  if (const std::optional<fs::path> base = CheckpointOf(from)) {
    source.checkpoint = LoadCheckpoint(*base);
    source.weights = std::move(source.checkpoint->weights);
    source.net = NetFromText(source.checkpoint->net_text, base->string() + ".state");
  } else {
    source.weights = ReadWeights(from);
    source.net = NetOf(source.weights);
  }
  if (arguments.Has("model")) {
    const std::string net = arguments.Get("model");
    source.net = ReadNet(net);
    CheckWeightsOf(source.net, net, source.weights, from.string());
  }
  return source;
}

void WriteWeights(const Source& source, const fs::path& to) {
  const std::vector<NamedBlob>& blobs = source.weights.blobs;
  std::map<std::string, std::string> metadata = source.weights.metadata;
  AddNetToMetadata(source.net, metadata);
  WriteWeightsFile(to, source.net, blobs, metadata);
  int64_t values = 0;
  for (const NamedBlob& blob : blobs) values += static_cast<int64_t>(blob.values.size());
  Print("wrote {}: {} blobs, {} values (from {})\n", to.string(), blobs.size(), values, source.weights.format);
}

// A state and, beside it, the weights it names.
void WriteState(Source source, const fs::path& to) {
  if (!source.checkpoint) {
    throw Error(ErrorKind::kUsage, SourcePlace{},
                "only a run's checkpoint or another solver state has what a solver state holds",
                "moka model convert RUN@best OUT.solverstate");
  }
  const std::string name = to.string();
  const size_t end = name.rfind(".solverstate");
  const std::string weights = StrCat(name.substr(0, end), ".caffemodel", IsHdf5Name(to) ? ".h5" : "");
  std::swap(source.checkpoint->weights, source.weights);  // the state needs their shapes
  const CaffeState state = CaffeStateOf(*source.checkpoint, weights);
  std::swap(source.checkpoint->weights, source.weights);
  WriteWeights(source, weights);
  WriteCaffeState(to, state);
  Print("wrote {}: iteration {}, {} history blobs\n", name, state.iteration, state.history.size());
}

int RunConvert(const Arguments& arguments) {
  if (arguments.positionals.size() != 2) throw Error(ErrorKind::kUsage, "moka model convert wants two files: FROM TO");
  const fs::path to = arguments.positionals[1];
  const bool is_state = IsStateName(to.filename().string());
  if (!is_state) WeightsFormatOf(to, ", .solverstate or .solverstate.h5");
  const std::string from = fs::path(arguments.positionals[0]).filename().string();
  if (is_state && IsStateName(from)) {
    arguments.RefuseUnread();
    const CaffeState state = ReadCaffeState(arguments.positionals[0]);
    WriteCaffeState(to, state);
    Print("wrote {}: iteration {}, {} history blobs\n", to.string(), state.iteration, state.history.size());
    return 0;
  }
  Source source = ReadSource(arguments);
  arguments.RefuseUnread();
  if (is_state) {
    WriteState(std::move(source), to);
  } else {
    WriteWeights(source, to);
  }
  return 0;
}

}  // namespace

Verb ConvertVerb() {
  Verb convert;
  convert.name = "convert";
  convert.under = "model";
  convert.summary = "weights and solver states between Caffe's formats, safetensors and runs";
  convert.usage = "FROM TO [--model FILE] [--runs FOLDER]";
  convert.examples = {"moka model convert lenet.caffemodel lenet.safetensors",
                      "moka model convert best.safetensors net.caffemodel --model deploy.prototxt",
                      "moka model convert net.caffemodel.h5 net.caffemodel",
                      "moka model convert lenet-0001@best lenet.solverstate"};
  convert.options = {{"model", "FILE", "the net whose layers a .caffemodel carries (default: FROM's own)"},
                     {"runs", "FOLDER", "where runs lie (default runs)"}};
  convert.computes = false;
  convert.run = RunConvert;
  return convert;
}

}  // namespace moka

// Resolves the first word (a run, run@checkpoint, a model's folder, a file of a net) to net, weights, names and card,
// in one order of precedence.
#include "tools/infer/source.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/left_out.h"
#include "data/files/picture_walk.h"
#include "data/image/image.h"
#include "data/pipeline/text_layers.h"
#include "data/records/class_names.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "tools/infer/frames.h"
#include "tools/infer/picture_flags.h"
#include "tools/measure/auto_precision.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/nets/zoo_weights.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// A line as a training's list has it, PATH LABEL, of a picture that is there.
void RefuseLabelBehind(const std::string& line) {
  std::error_code code;
  const size_t space = line.find_last_of(" \t");
  if (space == std::string::npos || fs::exists(line, code)) return;
  const std::string path(Trim(line.substr(0, space)));
  if (!fs::is_regular_file(path, code)) return;
  throw Error(ErrorKind::kNoInput, {},
              StrCat("the standard input names ", Printable(line), ", and there is no such file"),
              StrCat("a line holds a path alone, here ", Printable(path)));
}

// The picture that standard input holds, or the files that its lines name.
std::vector<fs::path> InputsOfStdin(const fs::path& folder) {
  std::string all;
  constexpr std::streamsize kStep = 1 << 16;
  constexpr int64_t kMostBytes = int64_t{128} << 20;
  for (std::string step(kStep, '\0'); std::cin;) {
    std::cin.read(step.data(), kStep);
    all.append(step, 0, static_cast<size_t>(std::cin.gcount()));
    if (std::ssize(all) <= kMostBytes) continue;
    throw Error(ErrorKind::kBadData, StrCat("the standard input has more than ", BytesText(kMostBytes)));
  }
  if (const std::optional<fs::path> picture = WritePictureBytes(all, folder)) return {*picture};
  std::vector<fs::path> files;
  for (const std::string& line : Split(all, '\n')) {
    if (Trim(line).empty()) continue;
    RefuseLabelBehind(std::string(Trim(line)));
    files.emplace_back(Trim(line));
  }
  return files;
}

// The file of a run's or a model's folder that inference reads: a model without a net for deployment has the one that
// it is trained by.
std::string_view NetFileOf(const fs::path& folder, bool is_run) {
  std::error_code code;
  if (is_run) return "net.prototxt";
  for (const fs::path& deploy : {folder / "deploy.prototxt", folder / "config" / "deploy.prototxt"}) {
    if (fs::exists(deploy, code)) return "deploy.prototxt";
  }
  return fs::exists(folder / "train_val.prototxt", code) ? "train_val.prototxt" : "deploy.prototxt";
}

NetState StateOf(const std::optional<NamedRun>& run) {
  NetState state;
  std::error_code code;
  if (run && fs::exists(run->folder / "config" / "solver.prototxt", code)) {
    const SolverParameter solver = ReadSolver(run->folder / "config" / "solver.prototxt");
    if (solver.test_state_size() > 0) state = solver.test_state(0);
  }
  state.set_phase(TEST);
  state.add_stage("deploy");
  return state;
}

}  // namespace

InferSource InferSourceOf(const Arguments& arguments) {
  if (!arguments.Has("model") && arguments.positionals.empty()) {
    throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or a deploy prototxt",
                "see moka infer --help");
  }
  InferSource source;
  const std::string word = arguments.Has("model") ? arguments.Get("model") : arguments.positionals.at(0);
  std::error_code code;
  const fs::path runs = arguments.Get("runs", "runs");
  const std::optional<NamedRun> run = FindNamedRun(word, runs);
  const fs::path config = run ? fs::path(word) : PathOfWord(word);
  source.net = FindConfig(config.string(), NetFileOf(config, run.has_value()), runs);
  source.folder = source.net.parent_path();
  source.state = StateOf(run);
  source.inputs = arguments.positionals;
  bool is_named_first = !arguments.Has("model");  // the first word names the net or the weights and is no input
  if (arguments.Has("weights")) {
    source.weights = ResolveWeights(arguments.Get("weights"), runs);
  } else if (run) {
    source.weights = FindCheckpoint(config.string(), runs).string();
  } else if (!is_named_first && !source.inputs.empty() && FindNamedRun(source.inputs.front(), runs)) {
    source.weights = FindCheckpoint(source.inputs.front(), runs).string();
    is_named_first = true;
  } else if (const std::optional<fs::path> weights = ZooWeightsOfWord(word)) {
    source.weights = weights->string();
  } else {
    throw NoWeightsError(source.net);
  }
  if (is_named_first) source.inputs.erase(source.inputs.begin());
  source.card = ModelCardOf(source.folder);
  fs::path labels = arguments.Peek("labels");
  const bool are_given = !labels.empty();
  for (const fs::path& folder : {run ? run->folder : config, source.folder}) {
    if (labels.empty() && fs::exists(folder / "labels.txt", code)) labels = folder / "labels.txt";
  }
  if (!labels.empty()) source.names = are_given ? ReadGivenNames(labels) : ReadNameLines(labels);
  source.flags = PictureFlagsOf(arguments);
  source.overrides = arguments.overrides;
  source.compile = CompileOptionsOf(arguments);
  source.has_precision = arguments.Has("precision");
  if (source.compile.compute == Compute::kAuto) {
    const NetParameter net = InferNet(source);
    source.compile.compute = AutoPrecision({&net, 1}, TEST, source.compile, {.state = source.state});
  }
  return source;
}

NetParameter InferNet(const InferSource& source) {
  NetReadOptions read;
  read.overrides = source.overrides;
  return FilterNet(ReadNet(source.net, read), source.state);
}

fs::path VocabularyFile(const InferSource& source, const LayerParameter& layer, const std::string& file) {
  std::error_code code;
  for (const LayerVocabulary& one : VocabulariesOf(layer)) {
    fs::path copy = source.folder / one.copy;
    if (one.file == file && fs::is_regular_file(copy, code)) return copy;
  }
  return file;
}

fs::path TextFileOf(const std::string& name) { return name == "-" ? kStandardInput : name; }

std::string NameOf(const InferSource& source, int64_t label) {
  const bool is_named = label >= 0 && label < static_cast<int64_t>(source.names.size());
  const std::string name = is_named ? source.names[static_cast<size_t>(label)] : std::string();
  return name.empty() ? std::to_string(label) : name;
}

VideoPictures VideoPicturesOf(const std::string& argument, const fs::path& frames) {
  std::error_code code;
  if (IsVideoName(argument) && fs::is_regular_file(argument, code)) {
    return ReadVideo(argument, frames / fs::path(argument).stem());
  }
  return {.files = PicturesOf({argument}, frames)};
}

std::vector<fs::path> PicturesBelow(const fs::path& folder) {
  LeftOut left_out;
  PictureWalk walk(folder, left_out);
  std::vector<fs::path> pictures = walk.PicturesIn(folder);
  for (const std::string& sentence : left_out.Sentences()) LogWarning(sentence);
  if (pictures.empty()) throw Error(ErrorKind::kNoInput, StrCat("no pictures in ", Printable(folder.string())));
  return pictures;
}

std::vector<fs::path> PicturesOf(const std::vector<std::string>& arguments, const fs::path& frames) {
  std::vector<fs::path> files;
  std::set<fs::path> taken;  // folders of videos, of which two may have one name
  for (const std::string& argument : arguments) {
    std::error_code code;
    if (argument == "-") {
      const std::vector<fs::path> named = InputsOfStdin(frames);
      files.insert(files.end(), named.begin(), named.end());
      continue;
    }
    if (IsVideoName(argument) && fs::is_regular_file(argument, code)) {
      const fs::path stem = fs::path(argument).stem();
      fs::path folder = frames / stem;
      for (int i = 2; !taken.insert(folder).second; ++i) folder = frames / StrCat(stem.string(), "-", i);
      const std::vector<fs::path> pictures = WriteFrames(argument, folder);
      files.insert(files.end(), pictures.begin(), pictures.end());
      continue;
    }
    if (!fs::is_directory(argument, code)) {
      files.emplace_back(argument);
      continue;
    }
    const std::vector<fs::path> inside = PicturesBelow(argument);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace moka

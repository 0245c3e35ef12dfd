// moka infer: pictures in, ranked classes out.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "tools/checkpoint_source.h"
#include "tools/classifier.h"
#include "tools/net_source.h"
#include "tools/program_options.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsPicture(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".bmp" ||
         extension == ".webp" || extension == ".gif";
}

// Files as given; the pictures of folders, sorted.
std::vector<fs::path> Pictures(const std::vector<std::string>& arguments) {
  std::vector<fs::path> files;
  for (const std::string& argument : arguments) {
    std::error_code code;
    if (!fs::is_directory(argument, code)) {
      files.emplace_back(argument);
      continue;
    }
    std::vector<fs::path> inside;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argument)) {
      if (entry.is_regular_file() && IsPicture(entry.path())) inside.push_back(entry.path());
    }
    if (inside.empty()) throw Error(ErrorKind::kNoInput, StrCat("no pictures in ", Printable(argument)));
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

// Net, weights and labels of a run folder, a model folder or a prototxt.
ClassifierOptions InferOptionsOf(const Arguments& arguments) {
  ClassifierOptions options;
  const fs::path config = arguments.Has("model") ? arguments.Get("model") : arguments.positionals.at(0);
  std::error_code code;
  const bool is_run = fs::is_directory(config / "checkpoints", code);
  if (is_run) {
    options.net = FindConfig(config.string(), "net.prototxt");
    if (!arguments.Has("weights")) options.weights = FindCheckpoint(config.string(), "runs").string();
  } else {
    options.net = FindConfig(config.string(), "deploy.prototxt");
  }
  if (arguments.Has("weights")) options.weights = arguments.Get("weights");
  if (options.weights.empty())
    throw Error(ErrorKind::kUsage, {}, "no weights: this is no run with a checkpoint", "give --weights FILE");
  options.labels = arguments.Get("labels");
  for (const fs::path& folder : {config, config / "config", options.net.parent_path()}) {
    if (options.labels.empty() && fs::exists(folder / "labels.txt", code)) options.labels = folder / "labels.txt";
  }
  options.overrides = arguments.overrides;
  options.compile = CompileOptionsOf(arguments);
  options.has_precision = arguments.Has("precision");
  return options;
}

void Print(const Arguments& arguments, const std::vector<fs::path>& files,
           const std::vector<std::vector<Prediction>>& results) {
  if (arguments.Has("json")) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (size_t i = 0; i < files.size(); ++i) {
      nlohmann::ordered_json top = nlohmann::ordered_json::array();
      for (const Prediction& p : results[i]) top.push_back({{"label", p.name}, {"index", p.label}, {"score", p.score}});
      json.push_back({{"file", files[i].string()}, {"top", top}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    for (size_t i = 0; i < files.size(); ++i) {
      fmt::print("{}\n", Printable(files[i].string()));
      for (const Prediction& p : results[i]) fmt::print("  {:.4f} - \"{}\"\n", p.score, Printable(p.name));
    }
  }
}

int RunInfer(const Arguments& arguments) {
  std::vector<std::string> pictures = arguments.positionals;
  if (!arguments.Has("model")) {
    if (pictures.empty())
      throw Error(ErrorKind::kUsage, {}, "missing argument: a run, a model folder or a deploy prototxt",
                  "see moka infer --help");
    pictures.erase(pictures.begin());
  }
  const bool looks = LooksInside(arguments);
  if (pictures.empty() && !looks)
    throw Error(ErrorKind::kUsage, "missing argument: at least one picture or folder of pictures");
  const std::vector<fs::path> files = Pictures(pictures);
  ClassifierOptions options = InferOptionsOf(arguments);
  constexpr int64_t kMostByDefault = 16;
  const auto given = static_cast<int64_t>(files.size());
  options.batch = arguments.Int("batch", given == 0 ? kMostByDefault : std::min(kMostByDefault, given), 1, 65536);
  const int64_t top = arguments.Int("top", 5, 1, INT64_MAX);
  Classifier classifier(options);
  if (LookInside(arguments, "infer", classifier.program())) return 0;
  BeginTrace(arguments);
  const int64_t begin = NowMicros();
  const auto results = classifier.Classify(files, top);
  const double ms = static_cast<double>(NowMicros() - begin) * 1e-3;
  EndTrace(arguments);
  Print(arguments, files, results);
  LogInfo(fmt::format("{} image{}, {:.1f} ms", files.size(), files.size() == 1 ? "" : "s", ms));
  return 0;
}

}  // namespace

Verb InferVerb() {
  Verb verb;
  verb.name = "infer";
  verb.summary = "classify pictures with a trained net";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt PICTURE|FOLDER... [--flags]";
  verb.examples = {"moka infer runs/latest digit.png",
                   "moka infer models/lenet --weights lenet.caffemodel digits/ --top 3",
                   "moka infer --model=deploy.prototxt --weights=net.caffemodel cat.jpg --json",
                   "moka infer runs/latest --dry-run --batch 1"};
  verb.options = {{"model", "FILE", "deploy or training prototxt (Caffe's spelling)"},
                  {"weights", "FILES", ".safetensors or .caffemodel (default: a run's best checkpoint)"},
                  {"labels", "FILE", "class names, one a line (default: labels.txt beside the net)"},
                  {"top", "N", "how many classes a picture (default 5)"},
                  {"batch", "N", "pictures a pass (default: as many as given, at most 16)"},
                  {"json", "", "print as JSON"}};
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (option.name != "recompute") verb.options.push_back(option);  // training's
  }
  verb.run = RunInfer;
  return verb;
}

}  // namespace moka

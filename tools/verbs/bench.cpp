// moka bench: whole training and inference steps against the clock and the machine's limits.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/text.h"
#include "core/trace.h"
#include "proto/net_file.h"
#include "tools/model_bench.h"
#include "tools/net_source.h"
#include "tools/program_options.h"
#include "tools/train_setup.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSteps = 1'000'000;

// A file, a folder, or the name of a folder of models/ or of the nets that exist for benchmarks only.
std::string ConfigOf(const std::string& name) {
  std::error_code code;
  if (fs::exists(name, code)) return name;
  for (const char* shelf : {"models", "tools/bench/nets"}) {
    const fs::path folder = fs::path(shelf) / name;
    if (fs::is_directory(folder, code)) return folder.string();
  }
  throw Error(ErrorKind::kNoInput, {}, StrCat("no file or folder ", Printable(name), ", nor models/", Printable(name)),
              "moka bench model NAME finds zoo nets from the repository's root; elsewhere give the folder's path");
}

struct Bench {
  BenchResult result;
  std::unique_ptr<TimedNet> net;
};

Bench Prepare(const Arguments& arguments) {
  if (arguments.positionals.size() != 1)
    throw Error(ErrorKind::kUsage, {}, "expected one model: a folder, a file or a name", "see moka bench model --help");
  if (arguments.Has("train") && arguments.Has("infer"))
    throw Error(ErrorKind::kUsage, "--train and --infer cannot both be asked for");
  Bench bench;
  BenchResult& result = bench.result;
  result.is_training = !arguments.Has("infer");
  result.threads = ThreadCount();
  TimedOptions options;
  options.batch = arguments.Int("batch", 0, 1, 1 << 20);
  options.shapes = ParseShapes(arguments.Get("shape"));
  const SplitOverrides overrides = SplitByTarget(arguments.overrides);
  options.solver = overrides.solver;
  const fs::path file =
      FindConfig(ConfigOf(arguments.positionals[0]), result.is_training ? "train_val.prototxt" : "deploy.prototxt");
  const bool is_folder = file.filename() == "train_val.prototxt" || file.filename() == "deploy.prototxt";
  result.model = is_folder ? fs::absolute(file).parent_path().filename().string() : file.stem().string();
  NetReadOptions read;
  read.overrides = overrides.net;
  const int64_t begin = NowMicros();
  std::vector<NetParameter> nets = {ReadNet(file, read)};
  for (const std::string& then : Split(arguments.Get("then"), ';')) {
    if (!then.empty()) nets.push_back(ReadNet(then, read));
  }
  result.parse_ms = static_cast<double>(NowMicros() - begin) * 1e-3;
  // Before the net takes its memory; a worker's ceilings are measured once by who compares.
  if (!arguments.Has("worker") && !LooksInside(arguments)) {
    result.ceilings = MeasureCeilings();
    ResetPeakMemory();
  }
  const CompileOptions compile =
      CompileOptionsOf(arguments, LooksInside(arguments) ? KernelMode::kKnown : KernelMode::kFastest);
  bench.net = MakeTimedNet(nets, result.is_training ? TRAIN : TEST, compile, options);
  result.items = arguments.Int("items", bench.net->batch, 1, INT64_MAX);
  return bench;
}

void AppendCsv(const Bench& bench, const fs::path& path) {
  const std::string header = TimmHeader(bench.result.is_training);
  std::error_code code;
  const bool is_new = !fs::exists(path, code) || fs::file_size(path, code) == 0;
  if (!is_new) {
    const std::string text = ReadFile(path);
    if (text.substr(0, text.find('\n')) != header) {
      throw Error(ErrorKind::kCantCreate, {}, StrCat(path.string(), " has other columns: a row cannot be appended"),
                  "training and inference go to files of their own");
    }
  }
  std::ofstream file(path, std::ios::app);
  if (is_new) file << header << "\n";
  file << TimmRow(bench.result, *bench.net) << "\n";
  if (!file.flush()) throw Error(ErrorKind::kCantCreate, StrCat("cannot write ", path.string()));
}

// Answers commands with one line of JSON each until "quit" or the end of the input. The first line says what is there.
// While it waits it blocks in read(2).
int Work(Bench& bench) {
  nlohmann::ordered_json hello = nlohmann::ordered_json::parse(BenchJson(bench.result, *bench.net));
  hello["ready"] = true;
  fmt::print("{}\n", hello.dump());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> words = Split(line, ' ');
    if (words[0] == "quit") break;
    int64_t steps = 0;
    if (words.size() == 2) steps = std::strtoll(words[1].c_str(), nullptr, 10);
    if ((words[0] != "run" && words[0] != "outside") || steps < 1 || steps > kMaxSteps) {
      throw Error(ErrorKind::kUsage, StrCat("a worker knows \"run N\", \"outside N\" (N from 1 to ", kMaxSteps,
                                            ") and \"quit\", found \"", Printable(line), "\""));
    }
    nlohmann::ordered_json answer;
    if (words[0] == "run") answer["ms"] = RunSteps(*bench.net, steps);
    if (words[0] == "outside") answer["outside_kernels_share"] = ShareOutsideKernels(*bench.net, steps);
    answer["peak_bytes"] = ProcessBytes("VmHWM");
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
  return 0;
}

int RunModel(const Arguments& arguments) {
  const int64_t iterations = arguments.Int("iterations", 10, 1, kMaxSteps);
  const int64_t warmup = arguments.Int("warmup", 2, 0, kMaxSteps);
  Bench bench = Prepare(arguments);
  if (LookInside(arguments, bench.result.model, *bench.net->program)) return 0;
  if (arguments.Has("worker")) return Work(bench);
  RunSteps(*bench.net, warmup);
  bench.result.step_ms = RunSteps(*bench.net, iterations);
  bench.result.peak_bytes = ProcessBytes("VmHWM");
  bench.result.outside_share = ShareOutsideKernels(*bench.net, std::min<int64_t>(iterations, 3));
  if (arguments.Has("csv")) AppendCsv(bench, arguments.Get("csv"));
  const std::string text =
      arguments.Has("json") ? BenchJson(bench.result, *bench.net) + "\n" : BenchText(bench.result, *bench.net);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

Verb BenchVerb() {
  Verb model;
  model.name = "model";
  model.summary = "rate, memory and start-up of whole steps of a net";
  model.usage = "NAME|FOLDER|FILE.prototxt [--train|--infer] [solver.type=Adam ...] [--flags]";
  model.examples = {"moka bench model resnet50 --batch 32", "moka bench model models/vgg16 --infer --csv infer.csv",
                    "moka bench model unet --json --iterations 20 --threads 2"};
  model.options = {
      {"train", "", "forward, backward and update (default)"},
      {"infer", "", "inference, of the deploy net"},
      {"batch", "N", "batch of every data layer (default: the net's)"},
      {"shape", "SHAPES", "shapes of data layers' tops: 'data=1,3,32,32;label=1'", ';'},
      {"items", "N", "what a step counts for the rate, as target tokens (default: the batch)"},
      {"then", "FILE", "a net run after it in every step on the same parameters, as a GAN's other half", ';'},
      {"iterations", "N", "measured steps; medians are printed (default 10)"},
      {"warmup", "N", "steps before them (default 2)"},
      {"csv", "FILE", "append a row of timm's benchmark columns"},
      {"json", "", "print as JSON"},
      {"worker", "", "for tools/bench/compare: a line of JSON, then one for every \"run N\" read"}};
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (option.name != "trace") model.options.push_back(option);
  }
  model.run = RunModel;

  Verb verb;
  verb.name = "bench";
  verb.summary = "training and inference rates of nets against the machine's limits";
  verb.usage = "model NAME [--flags]";
  verb.examples = {"moka bench model lenet", "moka bench model resnet50 --infer --batch 1",
                   "tools/bench/compare resnet50 --train --batch 32   (beside PyTorch and others)"};
  verb.subverbs = {model};
  return verb;
}

}  // namespace moka

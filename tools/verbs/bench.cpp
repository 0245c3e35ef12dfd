// moka bench: whole steps of nets, and input pipelines, against the clock and the machine's limits.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/standard_streams.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "core/trace.h"
#include "data/pipeline/open_pipeline.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/measure/auto_precision.h"
#include "tools/measure/data_bench.h"
#include "tools/measure/model_bench.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/nets/training_nets.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSteps = 1'000'000;

// A file, a folder, a run, or the name of a model of the zoo or of a net that exists for benchmarks only.
std::string ConfigOf(const std::string& name) {
  std::error_code code;
  if (fs::exists(name, code) || FindNamedRun(name, "runs")) return name;
  // The benches' own nets keep their names: a model of the zoo that is called alike is meant by its path.
  const fs::path own = fs::path("tools/bench/nets") / name;
  if (fs::is_directory(own, code)) return own.string();
  if (const std::optional<fs::path> model = FindModel(name)) return model->string();
  throw Error(ErrorKind::kNoInput, {}, StrCat("no file, folder, run or model ", Printable(name)),
              "moka zoo list names the models; nets of tools/bench/nets are found from the repository's root");
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
  options.has_precision = arguments.Has("precision");
  options.state = StateOfFlags(arguments);
  const std::string config = ConfigOf(arguments.positionals[0]);
  const fs::path file = result.is_training ? FindConfig(config, "train_val.prototxt") : FindInferenceNet(config);
  const bool is_folder = file.filename() == "train_val.prototxt" || file.filename() == "deploy.prototxt";
  const std::optional<NamedRun> run = FindNamedRun(config, "runs");
  result.model = run         ? run->folder.filename().string()
                 : is_folder ? fs::absolute(file).parent_path().filename().string()
                             : file.stem().string();
  NetReadOptions read;
  read.overrides = overrides.net;
  const int64_t begin = NowMicros();
  std::vector<NetParameter> nets;
  if (result.is_training && !arguments.Has("then")) {
    TrainingNets training = ReadTrainingNets(config, read, options.state);
    nets = std::move(training.nets);
    options.turns = std::move(training.turns);
  } else {
    nets = {ReadNetInState(file, read, options.state)};
  }
  for (const std::string& then : Split(arguments.Get("then"), ';')) {
    if (!then.empty()) nets.push_back(ReadNet(then, read));
  }
  result.parse_ms = static_cast<double>(NowMicros() - begin) * 1e-3;
  std::set<std::string> tops;
  for (const NetParameter& net : nets) AddTops(net, tops);
  RefuseUnknownTops(options.shapes, tops);
  // Before the net takes its memory; a worker's ceilings are measured once by who compares.
  if (!arguments.Has("worker") && !LooksInside(arguments)) {
    result.ceilings = MeasureCeilings();
    ResetPeakMemory();
  }
  CompileOptions compile = CompileOptionsOf(arguments);
  if (result.is_training) {
    RefuseInt8InTraining(arguments);
    compile.recompute = arguments.Has("recompute");
  }
  SettlePrecision(nets, result.is_training ? TRAIN : TEST, compile, options);
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
  const std::string lines = StrCat(is_new ? header + "\n" : "", TimmRow(bench.result, *bench.net), "\n");
  const fs::path target = fs::weakly_canonical(path, code);  // a link that the user has named is followed
  const OpenFile file = OpenFile::ForAppending(code ? path : target);
  if (write(file.fd(), lines.data(), lines.size()) != std::ssize(lines)) {
    throw Error(ErrorKind::kIo, StrCat("cannot write ", path.string()));
  }
}

// Answers commands with one line of JSON each until "quit" or the end of the input, after a first line that says what
// is there. `answer` gives none for a word it does not know. While it waits it blocks in read(2).
using Answer = std::function<std::optional<nlohmann::ordered_json>(const std::string& word, int64_t steps)>;
int Serve(const nlohmann::ordered_json& hello, const Answer& answer) {
  PrintJson(hello, -1);
  FlushStandardOutput();
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> words = Split(line, ' ');
    if (words[0] == "quit") break;
    int64_t steps = 0;
    if (words.size() == 2) steps = std::strtoll(words[1].c_str(), nullptr, 10);
    std::optional<nlohmann::ordered_json> json;
    if (steps >= 1 && steps <= kMaxSteps) json = answer(words[0], steps);
    if (!json) {
      throw Error(ErrorKind::kUsage,
                  StrCat("a worker knows \"run N\" (N from 1 to ", kMaxSteps,
                         "), \"quit\" and, for models, \"outside N\"; found \"", Printable(line), "\""));
    }
    (*json)["peak_bytes"] = ProcessBytes("VmHWM");
    PrintJson(*json, -1);
    FlushStandardOutput();
  }
  return 0;
}

int Work(const Bench& bench) {
  nlohmann::ordered_json hello = nlohmann::ordered_json::parse(BenchJson(bench.result, *bench.net));
  hello["ready"] = true;
  return Serve(hello, [&](const std::string& word, int64_t steps) -> std::optional<nlohmann::ordered_json> {
    if (word == "run") return nlohmann::ordered_json{{"ms", RunSteps(*bench.net, steps)}};
    if (word == "outside") {
      return nlohmann::ordered_json{{"outside_kernels_share", ShareOutsideKernels(*bench.net, steps)}};
    }
    return std::nullopt;
  });
}

int RunModel(const Arguments& arguments) {
  const int64_t iterations = arguments.Int("iterations", 10, 1, kMaxSteps);
  const int64_t warmup = arguments.Int("warmup", 2, 0, kMaxSteps);
  Bench bench = Prepare(arguments);
  RefuseUnreadBeforeLook(arguments, {"worker", "csv", "json"});
  bool is_looked_at = false;
  for (const Program* program : bench.net->Programs())
    is_looked_at = LookInside(arguments, bench.result.model, *program) || is_looked_at;
  if (is_looked_at) return 0;
  if (arguments.Has("worker")) return Work(bench);
  RunSteps(*bench.net, warmup);
  bench.result.step_ms = RunSteps(*bench.net, iterations);
  bench.result.peak_bytes = ProcessBytes("VmHWM");
  bench.result.outside_share = ShareOutsideKernels(*bench.net, std::min<int64_t>(iterations, 3));
  if (arguments.Has("csv")) AppendCsv(bench, arguments.Get("csv"));
  if (arguments.Has("json")) {
    PrintJsonText(BenchJson(bench.result, *bench.net));
  } else {
    PrintLines(BenchText(bench.result, *bench.net));
  }
  return 0;
}

// The data layer that is asked about: the recipe over a database, or a net's own.
LayerParameter DataLayerOf(const Arguments& arguments) {
  if (arguments.positionals.size() != 1) {
    throw Error(ErrorKind::kUsage, {}, "expected one database, or a net with a data layer",
                "see moka bench data --help");
  }
  const std::string& source = arguments.positionals[0];
  std::error_code code;
  if (fs::exists(fs::path(source) / "data.mdb", code)) {
    return ImageRecipe(source, arguments.Int("batch", 64, 1, 1 << 20), arguments.Int("size", 224, 1, 1 << 14));
  }
  NetReadOptions read;
  read.overrides = arguments.overrides;
  NetState state = StateOfFlags(arguments);
  state.set_phase(TRAIN);
  std::vector<std::string> names;
  for (const NetParameter& net : ReadNetsIn(ConfigOf(source), read, state)) {
    const NetParameter present = FilterNet(net, TRAIN);
    for (const LayerParameter& layer : present.layer()) {
      if (!IsPipelineLayer(layer.type())) continue;
      if (!arguments.Has("layer") || layer.name() == arguments.Get("layer")) return layer;
      names.push_back(layer.name());
    }
  }
  const std::string wanted = arguments.Has("layer") ? StrCat(" \"", Printable(arguments.Get("layer")), "\"") : "";
  throw Error(ErrorKind::kUsage, {}, StrCat(source, " has no layer", wanted, " that reads data when training"),
              names.empty() ? std::string() : StrCat("it has ", Join(names, ", ")));
}

int RunData(const Arguments& arguments) {
  const int64_t batches = arguments.Int("iterations", 50, 1, kMaxSteps);
  const LayerParameter layer = DataLayerOf(arguments);
  DataBench bench(layer, {.phase = TRAIN, .seed = 1, .threads = arguments.Int("workers", 0, 1, 256)});
  arguments.RefuseUnread({"worker", "warmup", "json"});
  constexpr int64_t kCompared = 2;
  if (!bench.IsReproducible(kCompared)) {
    throw Error(ErrorKind::kInternal, "the pipeline's batches differ from those of one worker");
  }
  const int64_t batch = bench.pipeline().batch_size();
  if (arguments.Has("worker")) {
    const nlohmann::ordered_json hello = {{"ready", true}, {"batch", batch}};
    return Serve(hello, [&](const std::string& word, int64_t steps) -> std::optional<nlohmann::ordered_json> {
      if (word != "run") return std::nullopt;
      return nlohmann::ordered_json{{"ms", bench.Run(steps)}};
    });
  }
  // Batches that were made ahead would count as made at once.
  const int64_t ahead = int64_t{layer.data_param().prefetch()} + 1;
  bench.Run(std::max(ahead, arguments.Int("warmup", 8, 0, kMaxSteps)));
  const PipelineStatistics before = bench.pipeline().statistics();
  const int64_t begin = NowMicros();
  bench.Run(batches);
  const double seconds = static_cast<double>(NowMicros() - begin) * 1e-6;
  const double rate = static_cast<double>(batches * batch) / seconds;
  const PipelineStatistics statistics = bench.pipeline().statistics().Since(before);
  if (arguments.Has("json")) {
    const nlohmann::ordered_json json = {{"layer", layer.name()},
                                         {"type", layer.type()},
                                         {"batch", batch},
                                         {"batches", batches},
                                         {"samples_per_second", rate},
                                         {"threads", statistics.threads},
                                         {"read_ms", static_cast<double>(statistics.read_micros) * 1e-3},
                                         {"decode_ms", static_cast<double>(statistics.decode_micros) * 1e-3},
                                         {"transform_ms", static_cast<double>(statistics.transform_micros) * 1e-3},
                                         {"idle_ms", static_cast<double>(statistics.idle_micros) * 1e-3},
                                         {"bad_records", statistics.bad_records}};
    PrintJson(json);
  } else {
    Print("{} ({}): {:.1f} samples/s, {:.2f} ms a batch of {}\n", layer.name(), layer.type(), rate,
          seconds * 1e3 / static_cast<double>(batches), batch);
    if (statistics.worker_micros() > 0) {
      Print("{}\neach stage alone on {} thread{}: {}\n", InputSentence(statistics), statistics.threads,
            statistics.threads == 1 ? "" : "s", StageRates(statistics));
    }
  }
  return 0;
}

}  // namespace

Verb BenchModelVerb() {
  Verb verb;
  verb.name = "model";
  verb.under = "bench";
  verb.summary = "rate, memory and start-up of whole steps of a net";
  verb.usage = "NAME|FOLDER|FILE.prototxt [--train|--infer] [solver.type=Adam ...] [--flags]";
  verb.examples = {"moka bench model resnet50 --batch 32", "moka bench model models/vgg16 --infer --csv infer.csv",
                   "moka bench model unet --json --iterations 20 --threads 2"};
  verb.options = {
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
    if (option.name != "trace") verb.options.push_back(option);
  }
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.run = RunModel;
  verb.takes_fields = TakenFields::kOfSolver;
  return verb;
}

Verb BenchDataVerb() {
  Verb verb;
  verb.name = "data";
  verb.under = "bench";
  verb.summary = "rate of an input pipeline, checked against one worker's batches";
  verb.usage = "DATABASE|NAME|FOLDER|FILE.prototxt [--flags]";
  verb.examples = {"moka bench data data/clothing --size 224 --batch 64", "moka bench data models/cifar10_resnet20"};
  verb.options = {
      {"size", "N", "pixels of a side that random crops of a database's pictures are resized to (default 224)"},
      {"batch", "N", "samples of a batch of a database (default 64); a net has its own"},
      {"layer", "NAME", "of several data layers of a net (default: the first)"},
      {"workers", "N", "decoding threads (default: the layer's own, or chosen)"},
      {"iterations", "N", "measured batches (default 50)"},
      {"warmup", "N", "batches before them (default 8)"},
      {"json", "", "print as JSON"},
      {"worker", "", "for tools/bench/data_compare: a line of JSON, then one for every \"run N\" read"}};
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.run = RunData;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

Verb BenchVerb() {
  Verb verb;
  verb.name = "bench";
  verb.summary = "rates of nets and input pipelines against the machine's limits, times to an accuracy";
  verb.usage = "model NAME | data SOURCE | accuracy MODEL [--flags]";
  verb.examples = {"moka bench model lenet", "moka bench model resnet50 --infer --batch 1",
                   "tools/bench/compare resnet50 --train --batch 32   (beside PyTorch and others)"};
  return verb;
}

}  // namespace moka

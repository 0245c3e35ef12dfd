// moka time: milliseconds of every kernel and layer against the machine's measured limits.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/median.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/measure/auto_precision.h"
#include "tools/measure/ceilings.h"
#include "tools/measure/timed_net.h"
#include "tools/nets/net_source.h"
#include "tools/nets/training_nets.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

struct StepTime {
  const StepReport* step;
  double ms;
};

// Medians over the iterations of each step.
std::vector<StepTime> Measure(Program& program, int64_t iterations, int64_t warmup) {
  ProgressBar bar(ProgressMode::kAuto, "iter", iterations + warmup);
  std::vector<std::vector<double>> samples(program.steps().size());
  std::vector<double> ms(program.steps().size(), 0);
  for (int64_t i = 0; i < iterations + warmup; ++i) {
    program.RunTimed(ms);
    for (size_t k = 0; k < ms.size() && i >= warmup; ++k) samples[k].push_back(ms[k]);
    bar.Update(i + 1, "");
  }
  std::vector<StepTime> times;
  for (size_t k = 0; k < samples.size(); ++k) {
    const StepReport& step = program.steps()[k];
    if (!step.is_constant && step.kernel != "alias") times.push_back({&step, Median(samples[k])});
  }
  return times;
}

std::string Direction(const StepReport& step) {
  if (step.pass == "autodiff") return "backward";
  if (step.pass == "update") return "update";
  return "forward";
}

void PrintSteps(const std::vector<StepTime>& times, const Ceilings& ceilings) {
  Print("{:<34} {:<9} {:<30} {:<26} {:>9} {:>9} {:>7} {:>6} {:>6}\n", "layer", "part", "op", "kernel", "ms", "GFLOP/s",
        "GB/s", "% peak", "% mem");
  for (const StepTime& t : times) {
    const StepReport& s = *t.step;
    const double gflops = t.ms > 0 ? static_cast<double>(s.flops) / t.ms * 1e-6 : 0;
    const double gbs = t.ms > 0 ? static_cast<double>(s.bytes) / t.ms * 1e-6 : 0;
    const std::string kernel = s.kernel + (s.implementation.empty() ? "" : ":" + s.implementation);
    Print("{:<34} {:<9} {:<30} {:<26} {:>9.3f} {:>9.1f} {:>7.1f} {:>6.1f} {:>6.1f}\n", s.layer, Direction(s), s.op,
          kernel, t.ms, gflops, gbs, 100 * gflops / PeakFor(ceilings, s.factors), 100 * gbs / ceilings.copy_gbs);
  }
}

// Caffe's closing lines, and the sums by kind of op.
void PrintSums(const std::vector<StepTime>& times, const std::vector<std::string>& layers) {
  std::map<std::string, std::map<std::string, double>> by_layer;
  std::map<std::string, double> by_op;
  double forward = 0;
  double backward = 0;
  double update = 0;
  for (const StepTime& t : times) {
    const std::string direction = Direction(*t.step);
    by_layer[t.step->layer][direction] += t.ms;
    by_op[t.step->op] += t.ms;
    (direction == "forward" ? forward : direction == "backward" ? backward : update) += t.ms;
  }
  Print("\nAverage time per layer:\n");
  for (const std::string& layer : layers) {
    if (by_layer[layer].contains("forward")) Print("{:>10}\tforward: {:g} ms.\n", layer, by_layer[layer]["forward"]);
    if (by_layer[layer].contains("backward")) Print("{:>10}\tbackward: {:g} ms.\n", layer, by_layer[layer]["backward"]);
  }
  Print("\nby op:\n");
  for (const auto& [op, ms] : by_op) Print("  {:<32} {:>10.3f} ms\n", op, ms);
  Print("\nAverage Forward pass: {:g} ms.\n", forward);
  if (backward > 0) Print("Average Backward pass: {:g} ms.\nUpdate: {:g} ms.\n", backward, update);
  Print("Average Forward-Backward: {:g} ms.\n", forward + backward + update);
}

// The net that the words name, and whether it is timed as it trains. Errors: kUsage.
struct Timing {
  std::string config;
  Phase phase = TRAIN;
};
Timing TimingOf(const Arguments& arguments) {
  Timing timing;
  timing.config = arguments.Has("model")          ? arguments.Get("model")
                  : arguments.positionals.empty() ? ""
                                                  : arguments.positionals[0];
  if (timing.config.empty())
    throw Error(ErrorKind::kUsage, {}, "missing argument: a model folder or --model FILE", "see moka time --help");
  const std::string phase = arguments.Get("phase", arguments.Has("forward_only") ? "TEST" : "TRAIN");
  if (phase != "TRAIN" && phase != "TEST") {
    throw Error(ErrorKind::kUsage, StrCat("--phase wants TRAIN or TEST, found \"", Printable(phase), "\""));
  }
  timing.phase = phase == "TRAIN" ? TRAIN : TEST;
  if (timing.phase == TRAIN && arguments.Has("forward_only")) {
    throw Error(ErrorKind::kUsage, {}, "--forward_only and --phase TRAIN ask for opposite things",
                "--phase TRAIN times the backward pass, too");
  }
  return timing;
}

// The nets as they are timed: of a training with turns one a turn, which `timed` tells of.
std::vector<NetParameter> ReadNets(const Arguments& arguments, const Timing& timing, TimedOptions& timed) {
  NetReadOptions read;
  const SplitOverrides overrides = SplitByTarget(arguments.overrides);
  read.overrides = timing.phase == TEST ? NetOverridesOf(arguments, "time --phase TEST") : overrides.net;
  timed.state = StateOfFlags(arguments);
  timed.solver = overrides.solver;
  timed.has_precision = arguments.Has("precision");
  std::vector<NetParameter> nets;
  if (timing.phase == TRAIN) {
    TrainingNets training = ReadTrainingNets(timing.config, read, timed.state);
    nets = std::move(training.nets);
    timed.turns = std::move(training.turns);
  } else {
    nets = {ReadNetInState(FindInferenceNet(timing.config), read, timed.state)};
  }
  return nets;
}

void PrintTimesAsJson(const std::vector<StepTime>& times, double total_ms, int64_t batch, const Ceilings& ceilings) {
  nlohmann::ordered_json json = {{"total_ms", total_ms},
                                 {"batch", batch},
                                 {"fma_gflops", ceilings.gflops},
                                 {"bfloat16_gflops", ceilings.bfloat16_gflops},
                                 {"int8_gops", ceilings.int8_gops},
                                 {"copy_gbs", ceilings.copy_gbs},
                                 {"threads", ThreadCount()}};
  for (const StepTime& t : times) {
    json["steps"].push_back({{"layer", t.step->layer},
                             {"part", Direction(*t.step)},
                             {"op", t.step->op},
                             {"kernel", t.step->kernel},
                             {"implementation", t.step->implementation},
                             {"types", t.step->types},
                             {"ms", t.ms},
                             {"flops", t.step->flops},
                             {"factors", NameOf(t.step->factors)},
                             {"bytes", t.step->bytes}});
  }
  PrintJson(json, 1);
}

void PrintTimes(const std::vector<StepTime>& times, double total_ms, int64_t batch, const Ceilings& ceilings) {
  PrintSteps(times, ceilings);
  std::vector<std::string> layers;
  for (const StepTime& t : times) {
    if (std::find(layers.begin(), layers.end(), t.step->layer) == layers.end()) layers.push_back(t.step->layer);
  }
  PrintSums(times, layers);
  Print("{:.1f} img/s at batch {}, {} threads; ceilings {}, {:.1f} GB/s\n",
        total_ms > 0 ? static_cast<double>(batch) / total_ms * 1e3 : 0, batch, ThreadCount(), PeaksText(ceilings),
        ceilings.copy_gbs);
}

int RunTime(const Arguments& arguments) {
  const Timing timing = TimingOf(arguments);
  TimedOptions timed;
  const std::vector<NetParameter> nets = ReadNets(arguments, timing, timed);
  CompileOptions compile = CompileOptionsOf(arguments);
  if (timing.phase == TRAIN) {
    RefuseInt8InTraining(arguments);
    compile.recompute = arguments.Has("recompute");
  }
  RefuseUnreadBeforeLook(arguments, {"precision", "iterations", "warmup", "trace", "json"});
  // Before the net takes its memory, so that the process never holds more than the net and what it needs.
  const Ceilings ceilings = LooksInside(arguments) ? Ceilings{} : MeasureCeilings();
  SettlePrecision(nets, timing.phase, compile, timed);
  const auto net = MakeTimedNet(nets, timing.phase, compile, timed);
  bool is_looked_at = false;
  for (const Program* program : net->Programs()) {
    is_looked_at = LookInside(arguments, timing.config, *program) || is_looked_at;
  }
  if (is_looked_at) return 0;
  const int64_t iterations = arguments.Int("iterations", 10, 1, 1000000);
  const int64_t warmup = arguments.Int("warmup", 2, 0, 1000);
  BeginTrace(arguments);
  std::vector<StepTime> times;
  for (Program* program : net->Programs()) {  // the turns of a training, one after the other
    const std::vector<StepTime> own = Measure(*program, iterations, warmup);
    times.insert(times.end(), own.begin(), own.end());
  }
  EndTrace(arguments);
  double total_ms = 0;
  for (const StepTime& t : times) total_ms += t.ms;
  (arguments.Has("json") ? PrintTimesAsJson : PrintTimes)(times, total_ms, net->batch, ceilings);
  return 0;
}

}  // namespace

Verb TimeVerb() {
  Verb verb;
  verb.name = "time";
  verb.summary = "milliseconds, GFLOP/s and GB/s of every kernel and layer";
  verb.usage = "MODEL|FILE.prototxt [solver.recompute=true ...] [--flags]";
  verb.examples = {"moka time models/resnet50", "moka time models/lenet --phase TEST",
                   "moka time --model=net.prototxt --iterations=50"};
  verb.options = {{"model", "FILE", "the prototxt (Caffe's spelling)"},
                  {"iterations", "N", "timed runs; medians are printed (default 10)"},
                  {"warmup", "N", "runs before them (default 2)"},
                  {"phase", "PHASE", "TRAIN (forward, backward, update; default) or TEST (inference)"},
                  {"forward_only", "", "the same as --phase TEST"},
                  {"json", "", "print as JSON"}};
  for (const OptionSpec& option : ProgramOptionSpecs()) verb.options.push_back(option);
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.run = RunTime;
  verb.takes_fields = TakenFields::kOfSolver;
  return verb;
}

}  // namespace moka

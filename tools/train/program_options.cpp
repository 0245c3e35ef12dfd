// One table of flags with their checks against the catalogue, for all verbs that compile.
#include "tools/train/program_options.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>

#include "core/choices.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "graph/kernel_search.h"
#include "graph/op.h"
#include "graph/pass.h"
#include "layers/kernels/cpu/kernel_rule.h"
#include "layers/net/catalog.h"
#include "optim/precision.h"
#include "tools/cli/device_choice.h"
#include "tools/cli/print.h"
#include "tools/measure/calibration.h"
#include "tools/measure/half_outlook.h"
#include "tools/measure/machine.h"

namespace moka {
namespace {

void CheckPass(const std::string& name) {
  std::vector<std::string> names;
  for (const Pass& pass : CompilePasses()) names.emplace_back(pass.name);
  for (const std::string& known : names) {
    if (known == name) return;
  }
  throw Error(ErrorKind::kUsage, {}, StrCat("no pass \"", Printable(name), "\" (", Join(names, ", "), ")"),
              DidYouMean(name, names));
}

// The rows named by --disable-kernel or --prefer-kernel.
std::set<std::string> KernelNames(const Arguments& arguments, const std::string& flag) {
  if (!arguments.Has(flag)) return {};
  std::set<std::string> known;
  for (const OpDef& op : StandardCatalog().ops()) {
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
      for (const KernelDef* row : StandardCatalog().KernelsOf(op.name, kind)) {
        known.insert(row->name);
        known.insert(StrCat(op.name, "/", row->name));
      }
    }
  }
  std::set<std::string> names;
  for (const std::string& name : Split(arguments.Get(flag), ',')) {
    if (!known.contains(name)) {
      const std::string near = DidYouMean(name, {known.begin(), known.end()});
      throw Error(
          ErrorKind::kUsage, {}, StrCat("--", flag, ": no kernel \"", Printable(name), "\""),
          near.empty() ? "--dry-run lists the kernels of a net, --explain=LAYER those that a layer may have" : near);
    }
    names.insert(name);
  }
  return names;
}

KernelSearch::Unknown UnknownOf(KernelMode mode) {
  if (mode == KernelMode::kRenew) return KernelSearch::Unknown::kRenew;
  return mode == KernelMode::kFastest ? KernelSearch::Unknown::kMeasure : KernelSearch::Unknown::kLeave;
}

}  // namespace

std::vector<OptionSpec> ProgramOptionSpecs() {
  return {
      {"device", "NAME", "cpu, gpu, gpu:N or rehearsal (default: the first GPU, else the CPU)"},
      {"gpu", "N", ""},  // Caffe's spelling of --device=gpu:N
      {"dry-run", "", "compile, print passes, kernels and planned memory, start nothing"},
      {"explain", "LAYER", "print every kernel, refusal, fusion and reorder of a layer, start nothing"},
      {"dump-after", "PASS", "print the graph after a pass"},
      {"precision", "NAME", "float32, tf32, bfloat16, float16 or auto: the arithmetic of products and convolutions"},
      {"int8", "FILE", "inference on 8-bit integers by the ranges of moka quantise"},
      {"disable-pass", "LIST", "leave out optional passes"},
      {"kernels", "MODE",
       "rule (by shapes; the default), fastest (time them once), known (as timed before), listed (the first of each "
       "list), renew (time again)"},
      {"disable-kernel", "LIST", "kernels not to be used (\"winograd\")"},
      {"prefer-kernel", "LIST", "kernels to take wherever they fit"},
      {"recompute", "", "training keeps less memory and makes results of batch norms again for the backward pass"},
      {"trace", "FILE", "write a Chrome trace of kernels"}};
}

KernelMode KernelModeOf(const Arguments& arguments, KernelMode fallback) {
  if (!arguments.Has("kernels")) return fallback;
  const std::string text = arguments.Get("kernels");
  if (text == "rule") return KernelMode::kRule;
  if (text == "fastest") return KernelMode::kFastest;
  if (text == "known") return KernelMode::kKnown;
  if (text == "listed") return KernelMode::kListed;
  if (text == "renew") return KernelMode::kRenew;
  throw Error(ErrorKind::kUsage, {},
              StrCat("--kernels wants rule, fastest, known, listed or renew, found \"", Printable(text), "\""),
              DidYouMean(text, {"rule", "fastest", "known", "listed", "renew"}));
}

CompileOptions CompileOptionsOf(const Arguments& arguments, KernelMode mode, std::string_view times) {
  CompileOptions options;
  options.device = DeviceOf(arguments);
  options.disabled_kernels = KernelNames(arguments, "disable-kernel");
  options.preferred_kernels = KernelNames(arguments, "prefer-kernel");
  mode = KernelModeOf(arguments, mode);
  if (mode == KernelMode::kRule) {
    options.search = std::make_shared<KernelSearch>(MillisecondsByRule, times);
  } else if (mode != KernelMode::kListed) {
    const std::filesystem::path file = KernelTimesFile();
    if (file.empty() && mode != KernelMode::kKnown) {
      LogWarning("times of kernels are not kept: neither XDG_CACHE_HOME nor HOME is an absolute path");
    }
    options.search = std::make_shared<KernelSearch>(file, UnknownOf(mode), times);
  }
  if (arguments.Has("int8")) {
    auto quantization = std::make_shared<Quantization>(ReadQuantization(arguments.Get("int8")));
    quantization->weight_limit = WeightLimit();
    options.quantization = std::move(quantization);
  }
  if (mode == KernelMode::kRenew) RenewChoices();
  if (arguments.Has("precision")) options.compute = ComputeNamed(arguments.Get("precision"), ErrorKind::kUsage);
  if (options.device.is_cpu()) options.on_compiled = TellEmulation;
  if (arguments.Has("disable-pass")) {
    // Compile itself refuses a pass that is unknown or needed.
    for (const std::string& name : Split(arguments.Get("disable-pass"), ',')) options.disabled_passes.insert(name);
  }
  if (arguments.Has("dump-after")) {
    const std::string wanted = arguments.Get("dump-after");
    CheckPass(wanted);
    options.on_pass = [wanted](std::string_view pass, const Graph& graph) {
      if (pass == wanted) PrintLines(StrCat("# after ", pass, "\n", ToText(graph)));
    };
  }
  return options;
}

void RefuseInt8InTraining(const Arguments& arguments) {
  if (!arguments.Has("int8")) return;
  throw Error(ErrorKind::kUsage, {}, "--int8 is for inference: a training computes in floating point",
              "`moka test --int8 FILE` and `moka infer --int8 FILE` run on integers");
}

void BeginTrace(const Arguments& arguments) {
  if (!arguments.Has("trace")) return;
  NameTraceLane("program");
  StartTrace();
}

void EndTrace(const Arguments& arguments) {
  if (arguments.Has("trace")) StopTrace(arguments.Get("trace"));
}

std::string ProgramSummary(const std::string& name, const Program& program) {
  std::string s =
      fmt::format("program {}\n  {:<10} {:>8} {:>12} {:>12}\n", Printable(name), "pass", "ms", "nodes before", "after");
  for (const PassReport& pass : program.report().passes) {
    s += fmt::format("  {:<10} {:>8.1f} {:>12} {:>12}{}\n", pass.name, pass.ms, pass.nodes_before, pass.nodes_after,
                     pass.skipped   ? "  skipped"
                     : pass.changed ? ""
                                    : "  no change");
  }
  std::map<std::string, int> kernels;
  int reorders = 0;
  int64_t flops = 0;
  for (const StepReport& step : program.steps()) {
    ++kernels[step.op + " " + step.kernel + (step.implementation.empty() ? "" : ":" + step.implementation)];
    if (step.op == "reorder" && !step.is_constant) ++reorders;
    if (!step.is_constant) flops += step.flops;
  }
  s += fmt::format("  {} steps, {} reorders in the steady state, {:.3f} GFLOP a run\n", program.steps().size(),
                   reorders, static_cast<double>(flops) * 1e-9);
  for (const auto& [kernel, count] : kernels) s += fmt::format("    {:>5} x {}\n", count, kernel);
  const MemoryReport& memory = program.report().memory;
  const double ratio =
      memory.bound_bytes > 0 ? static_cast<double>(memory.arena_bytes) / static_cast<double>(memory.bound_bytes) : 1;
  s += fmt::format("  memory: arena {} (lower bound {}, ratio {:.3f}), states {}, inputs {}, constants {}\n",
                   BytesText(memory.arena_bytes), BytesText(memory.bound_bytes), ratio, BytesText(memory.state_bytes),
                   BytesText(memory.input_bytes), BytesText(memory.constant_bytes));
  for (const auto& [value, bytes] : memory.largest)
    s += fmt::format("    at the peak: {} {}\n", Printable(value), BytesText(bytes));
  return s;
}

bool LooksInside(const Arguments& arguments) { return arguments.Has("explain") || arguments.Has("dry-run"); }

void RefuseUnreadBeforeLook(const Arguments& arguments, std::initializer_list<const char*> later) {
  arguments.WillRead({"dry-run", "explain", "verbose"});
  arguments.RefuseUnread(later);
}

bool LookInside(const Arguments& arguments, const std::string& name, const Program& program) {
  if (arguments.Has("explain")) PrintLines(ExplainLayer(program.steps(), arguments.Get("explain")));
  if (arguments.Has("dry-run")) {
    PrintLines(ProgramSummary(name, program));
    if (arguments.Has("verbose")) PrintLines(program.report().text);
  }
  return LooksInside(arguments);
}

}  // namespace moka

#include "tools/program_options.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "graph/pass.h"

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

}  // namespace

std::vector<OptionSpec> ProgramOptionSpecs() {
  return {{"dry-run", "", "compile, print passes, kernels and planned memory, start nothing"},
          {"explain", "LAYER", "print every kernel, refusal, fusion and reorder of a layer, start nothing"},
          {"dump-after", "PASS", "print the graph after a pass"},
          {"disable-pass", "LIST", "leave out optional passes"},
          {"trace", "FILE", "write a Chrome trace of kernels"}};
}

CompileOptions CompileOptionsOf(const Arguments& arguments) {
  CompileOptions options;
  if (arguments.Has("disable-pass")) {
    // Compile itself refuses a pass that is unknown or needed.
    for (const std::string& name : Split(arguments.Get("disable-pass"), ',')) options.disabled_passes.insert(name);
  }
  if (arguments.Has("dump-after")) {
    const std::string wanted = arguments.Get("dump-after");
    CheckPass(wanted);
    options.on_pass = [wanted](std::string_view pass, const Graph& graph) {
      if (pass == wanted) std::fputs(StrCat("# after ", pass, "\n", ToText(graph)).c_str(), stdout);
    };
  }
  return options;
}

std::string ProgramSummary(const std::string& name, const Program& program) {
  std::string s =
      fmt::format("program {}\n  {:<10} {:>8} {:>12} {:>12}\n", name, "pass", "ms", "nodes before", "after");
  for (const PassReport& pass : program.passes()) {
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
  const MemoryReport& memory = program.memory();
  const double ratio =
      memory.bound_bytes > 0 ? static_cast<double>(memory.arena_bytes) / static_cast<double>(memory.bound_bytes) : 1;
  s += fmt::format("  memory: arena {} (lower bound {}, ratio {:.3f}), states {}, inputs {}, constants {}\n",
                   BytesText(memory.arena_bytes), BytesText(memory.bound_bytes), ratio, BytesText(memory.state_bytes),
                   BytesText(memory.input_bytes), BytesText(memory.constant_bytes));
  for (const auto& [value, bytes] : memory.largest)
    s += fmt::format("    at the peak: {} {}\n", value, BytesText(bytes));
  return s;
}

bool LooksInside(const Arguments& arguments) { return arguments.Has("explain") || arguments.Has("dry-run"); }

bool LookInside(const Arguments& arguments, const std::string& name, const Program& program) {
  if (arguments.Has("explain")) std::fputs(program.Explain(arguments.Get("explain")).c_str(), stdout);
  if (arguments.Has("dry-run")) {
    std::fputs(ProgramSummary(name, program).c_str(), stdout);
    if (arguments.Has("verbose")) std::fputs(program.text().c_str(), stdout);
  }
  return LooksInside(arguments);
}

}  // namespace moka

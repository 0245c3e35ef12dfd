// The net is compiled for either, and its steps are counted.
#include "tools/measure/auto_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/log.h"
#include "core/text.h"
#include "graph/kernel_search.h"
#include "layers/kernels/cpu/kernel_rule.h"
#include "optim/precision.h"
#include "proto/text/overrides.h"
#include "tools/measure/half_outlook.h"

namespace moka {
namespace {

constexpr double kClearly = 1.1;         // times as fast
constexpr int kMultipliesBFloat16 = 80;  // compute capability of the first GPUs that do, times 10

struct Choice {
  Compute compute = Compute::kFloat32;
  std::string reason;
};

Choice ChooseOnGpu(const Device& device) {
  const std::vector<GpuFacts> gpus = FindCuda().gpus;
  const auto index = static_cast<size_t>(device.index);
  if (index < gpus.size() && gpus[index].capability < kMultipliesBFloat16) {
    return {Compute::kFloat32, "this GPU does not multiply bfloat16"};
  }
  return {Compute::kBFloat16, "GPUs multiply it several times as fast as float32"};
}

// The net's steps, of all its programs.
std::vector<StepReport> StepsOf(std::span<const NetParameter> nets, Phase phase, CompileOptions compile,
                                TimedOptions options, Compute compute) {
  compile.compute = compute;
  compile.on_compiled = nullptr;
  compile.on_pass = nullptr;
  compile.search = std::make_shared<KernelSearch>(MillisecondsByRule);  // whatever the program itself goes by
  options.has_precision = true;
  const std::unique_ptr<TimedNet> net = MakeTimedNet(nets, phase, compile, options);
  std::vector<StepReport> steps;
  for (const Program* program : net->Programs()) {
    steps.insert(steps.end(), program->steps().begin(), program->steps().end());
  }
  return steps;
}

Choice ChooseOnCpu(std::span<const NetParameter> nets, Phase phase, const CompileOptions& compile,
                   const TimedOptions& options) {
  const HalfOutlook outlook = OutlookOf(StepsOf(nets, phase, compile, options, Compute::kBFloat16),
                                        StepsOf(nets, phase, compile, options, Compute::kFloat32));
  if (outlook.speedup >= kClearly) {
    return {Compute::kBFloat16, fmt::format("expected to be {:.1f} times as fast as float32 here", outlook.speedup)};
  }
  return {Compute::kFloat32, fmt::format("bfloat16 is expected to be {:.1f} times as fast here", outlook.speedup)};
}

Choice Choose(std::span<const NetParameter> nets, Phase phase, const CompileOptions& compile,
              const TimedOptions& options) {
  const auto says_float = [](const NetParameter& net) {
    return net.has_default_forward_type() && net.default_forward_type() == FLOAT;
  };
  if (std::ranges::any_of(nets, says_float)) return {Compute::kFloat32, "the net says default_forward_type: FLOAT"};
  return compile.device.is_cpu() ? ChooseOnCpu(nets, phase, compile, options) : ChooseOnGpu(compile.device);
}

}  // namespace

Compute AutoPrecision(std::span<const NetParameter> nets, Phase phase, const CompileOptions& compile,
                      const TimedOptions& options) {
  const Choice choice = Choose(nets, phase, compile, options);
  LogInfo(StrCat("precision auto: ", ComputeName(choice.compute), " (", choice.reason, ")"));
  return choice.compute;
}

void SettlePrecision(std::span<const NetParameter> nets, Phase phase, CompileOptions& compile, TimedOptions& options) {
  SolverParameter solver;
  if (!options.has_precision) (void)ApplyOverrides(options.solver, solver);
  if (PrecisionOf(solver, nets.front(), compile.compute) != Compute::kAuto) return;
  compile.compute = AutoPrecision(nets, phase, compile, options);
  options.has_precision = true;
}

void SettleTestPrecision(bool is_asked, const SolverParameter& solver, const NetParameter& net,
                         CompileOptions& compile) {
  if (!is_asked) compile.compute = PrecisionOf(solver, net, compile.compute);
  if (compile.compute == Compute::kAuto) compile.compute = AutoPrecision({&net, 1}, TEST, compile);
}

}  // namespace moka

// Steps are timed one by one; work is counted from the program's steps, memory from its plan and the process.
#include "tools/measure/model_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/median.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

// The work of the programs' steps, by their count of operations and bytes, and the memory of all.
struct Work {
  double gflop = 0;
  std::map<std::string, double> gflop_by_type;  // of the factors
  double peak_ms = 0;  // of the arithmetic at the ceilings of its factors' types; 0: not measured
  double gigabytes = 0;
  MemoryReport memory;
};
Work WorkOf(const TimedNet& net, const Ceilings& ceilings) {
  Work work;
  for (Program* program : net.Programs()) {
    for (const StepReport& step : program->steps()) {
      if (step.is_constant || step.kernel == "alias") continue;
      const double gflop = static_cast<double>(step.flops) * 1e-9;
      work.gflop += gflop;
      work.gflop_by_type[std::string(NameOf(step.factors))] += gflop;
      if (ceilings.gflops > 0) work.peak_ms += gflop * 1e3 / PeakFor(ceilings, step.factors);
      work.gigabytes += static_cast<double>(step.bytes) * 1e-9;
    }
    const MemoryReport& memory = program->report().memory;
    work.memory.arena_bytes += memory.arena_bytes;
    work.memory.bound_bytes += memory.bound_bytes;
    work.memory.constant_bytes += memory.constant_bytes;
    work.memory.input_bytes += memory.input_bytes;
  }
  work.memory.state_bytes = net.store.Bytes();
  return work;
}

double PerSecond(double work, double ms) { return ms > 0 ? work / ms * 1e3 : 0; }
double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }
double Millions(int64_t count) { return static_cast<double>(count) * 1e-6; }

}  // namespace

std::vector<double> RunSteps(const TimedNet& net, int64_t steps) {
  std::vector<double> ms(static_cast<size_t>(steps));
  for (double& value : ms) {
    const int64_t begin = NowMicros();
    net.Run();
    value = static_cast<double>(NowMicros() - begin) * 1e-3;
  }
  return ms;
}

double ShareOutsideKernels(const TimedNet& net, int64_t steps) {
  std::vector<double> shares;
  for (int64_t i = 0; i < steps; ++i) {
    double wall = 0;
    double inside = 0;
    for (Program* program : net.Programs()) {
      std::vector<double> ms(program->steps().size(), 0);
      const int64_t begin = NowMicros();
      program->RunTimed(ms);
      wall += static_cast<double>(NowMicros() - begin) * 1e-3;
      inside += std::accumulate(ms.begin(), ms.end(), 0.0);
    }
    shares.push_back(wall > 0 ? std::max(0.0, 1 - inside / wall) : 0);
  }
  return Median(std::move(shares));
}

int64_t ProcessBytes(std::string_view field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field) || line.size() <= field.size() || line[field.size()] != ':') continue;
    return std::strtoll(line.c_str() + field.size() + 1, nullptr, 10) << 10;
  }
  return 0;
}

void ResetPeakMemory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5\n";  // proc(5): resets the peak; a system that refuses leaves it as it was
}

double BenchResult::median_ms() const { return Median(step_ms); }
double BenchResult::items_per_second() const { return PerSecond(static_cast<double>(items), median_ms()); }

std::string BenchJson(const BenchResult& r, const TimedNet& net) {
  const Work work = WorkOf(net, r.ceilings);
  const MemoryReport& memory = work.memory;
  const double gflops = PerSecond(work.gflop, r.median_ms());
  const double gbs = PerSecond(work.gigabytes, r.median_ms());
  nlohmann::ordered_json json = {{"model", r.model},
                                 {"mode", r.is_training ? "train" : "infer"},
                                 {"batch", net.batch},
                                 {"items", r.items},
                                 {"threads", r.threads},
                                 {"parameters", net.parameters},
                                 {"image_size", net.image_size},
                                 {"items_per_second", r.items_per_second()},
                                 {"step_ms", r.median_ms()},
                                 {"steps_ms", r.step_ms},
                                 {"forward_gflop", static_cast<double>(net.forward_flops) * 1e-9},
                                 {"activations", net.activations},
                                 {"gflop", work.gflop},
                                 {"gflop_by_type", work.gflop_by_type},
                                 {"gigabytes", work.gigabytes},
                                 {"gflops", gflops},
                                 {"gbs", gbs},
                                 {"fma_gflops", r.ceilings.gflops},
                                 {"bfloat16_gflops", r.ceilings.bfloat16_gflops},
                                 {"int8_gops", r.ceilings.int8_gops},
                                 {"copy_gbs", r.ceilings.copy_gbs},
                                 {"fma_share", Share(work.peak_ms, r.median_ms())},
                                 {"copy_share", Share(gbs, r.ceilings.copy_gbs)},
                                 {"outside_kernels_share", r.outside_share},
                                 {"peak_bytes", r.peak_bytes},
                                 {"arena_bytes", memory.arena_bytes},
                                 {"arena_bound_bytes", memory.bound_bytes},
                                 {"state_bytes", memory.state_bytes},
                                 {"input_bytes", memory.input_bytes},
                                 {"constant_bytes", memory.constant_bytes},
                                 {"parse_ms", r.parse_ms},
                                 {"build_ms", net.build_ms},
                                 {"compile_ms", net.compile_ms}};
  return json.dump();
}

std::string BenchText(const BenchResult& r, const TimedNet& net) {
  const Work work = WorkOf(net, r.ceilings);
  const MemoryReport& memory = work.memory;
  const double gflops = PerSecond(work.gflop, r.median_ms());
  const double gbs = PerSecond(work.gigabytes, r.median_ms());
  const auto [low, high] = std::ranges::minmax(r.step_ms);
  std::string s = fmt::format("{} {}, batch {}, {} threads\n", r.model, r.is_training ? "training" : "inference",
                              net.batch, r.threads);
  s += fmt::format("  rate       {:.2f} a second; step {:.3f} ms [{:.3f} .. {:.3f}], {} steps\n", r.items_per_second(),
                   r.median_ms(), low, high, r.step_ms.size());
  s += fmt::format("  arithmetic {:.1f} GFLOP/s", gflops);
  if (r.ceilings.gflops > 0)
    s += fmt::format(", {:.1f} % of what {} allow", 100 * Share(work.peak_ms, r.median_ms()), PeaksText(r.ceilings));
  s += fmt::format("\n  memory     {:.1f} GB/s", gbs);
  if (r.ceilings.copy_gbs > 0)
    s += fmt::format(", {:.1f} % of {:.1f}", 100 * gbs / r.ceilings.copy_gbs, r.ceilings.copy_gbs);
  s += fmt::format("\n  outside    {:.2f} % of a step is in no kernel\n", 100 * r.outside_share);
  s += fmt::format("  peak       {} resident; arena {} (lower bound {})\n", BytesText(r.peak_bytes),
                   BytesText(memory.arena_bytes), BytesText(memory.bound_bytes));
  s += fmt::format("  start      parse {:.0f} ms, build {:.0f} ms, compile {:.0f} ms\n", r.parse_ms, net.build_ms,
                   net.compile_ms);
  return s;
}

std::string TimmHeader(bool is_training) {
  return is_training
             ? "model,train_samples_per_sec,train_step_time,train_batch_size,train_img_size,param_count"
             : "model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size,infer_gmacs,infer_macts,"
               "param_count";
}

std::string TimmRow(const BenchResult& r, const TimedNet& net) {
  const std::string start =
      fmt::format("{},{:.2f},{:.3f},{},{}", r.model, r.items_per_second(), r.median_ms(), net.batch, net.image_size);
  if (r.is_training) return fmt::format("{},{:.2f}", start, Millions(net.parameters));
  const auto batch = static_cast<double>(std::max<int64_t>(1, net.batch));
  return fmt::format("{},{:.2f},{:.2f},{:.2f}", start, Millions(net.forward_flops) / 2e3 / batch,
                     Millions(net.activations) / batch, Millions(net.parameters));
}

}  // namespace moka

// moka device: what this machine offers.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/device/device.h"
#include "core/text.h"
#include "core/threads/cpu_list.h"
#include "core/threads/cpus.h"
#include "core/threads/parallel.h"
#include "core/threads/team.h"
#include "core/threads/team_wait.h"
#include "graph/program.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/measure/ceilings.h"
#include "tools/measure/machine.h"
#include "tools/train/team_setup.h"

namespace moka {
namespace {

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  for (const Cpu& cpu : ProcessCpus().allowed) cpus.push_back(cpu.id);
  return cpus;
}

// Adds what decides how many threads there are, and where they run.
void AddTeam(nlohmann::ordered_json& json) {
  const CpuFacts& facts = ProcessCpus();
  json["allowed_cpus"] = CpuListText(AllowedCpus());
  json["quota_cpus"] = facts.quota > 0 ? nlohmann::ordered_json(facts.quota) : nlohmann::ordered_json();
  json["local_ranks"] = facts.local_ranks;
  json["local_rank"] = facts.local_rank;
  json["is_pinned"] = HasPlaces();
  json["wait"] = WaitText();
  for (const std::vector<int>& cpus : TeamCpus()) json["team_cpus"].push_back(CpuListText(cpus));
}

std::string AllowedText() {
  const CpuFacts& facts = ProcessCpus();
  std::string text = StrCat("CPUs ", CpuListText(AllowedCpus()));
  if (facts.quota > 0) text += StrCat(", for the time of ", facts.quota);
  if (facts.local_ranks > 1) text += StrCat("; rank ", facts.local_rank, " of ", facts.local_ranks, " on this box");
  return text;
}

void AddGpus(nlohmann::ordered_json& json, const CudaFacts& facts) {
  const auto known = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  json["cuda"] = known(CudaRuntime());
  json["cuda_driver"] = known(facts.driver);
  json["no_gpu"] = known(facts.missing);
  json["gpus"] = nlohmann::ordered_json::array();
  for (const GpuFacts& gpu : facts.gpus) {
    json["gpus"].push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"capability", gpu.capability}});
  }
}

// "CUDA     13.0; no NVIDIA GPU: CUDA driver not found", or the driver's version and a line each GPU.
std::string GpuText(const CudaFacts& facts) {
  const std::string runtime = CudaRuntime();
  if (runtime.empty()) return "CUDA     not built in\n";
  std::string text = StrCat("CUDA     ", runtime, facts.driver.empty() ? "" : ", driver ", facts.driver);
  text += facts.missing.empty() ? "\n" : StrCat("; no NVIDIA GPU: ", facts.missing, "\n");
  for (size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    text += StrCat("GPU ", i, "    ", gpu.name, ", ", BytesText(gpu.memory_bytes), ", compute capability ",
                   gpu.capability / 10, ".", gpu.capability % 10, "\n");
  }
  return text;
}

int RunDevice(const Arguments& arguments) {
  arguments.RefuseUnread({"ceilings", "json"});
  const int64_t memory = MachineMemoryBytes();
  nlohmann::ordered_json json = {
      {"cpu", CpuName()},         {"isa", IsaName()},       {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
      {"threads", ThreadCount()}, {"memory_bytes", memory}, {"onednn", OnednnVersion()}};
  AddTeam(json);
  const CudaFacts cuda = FindCuda();
  AddGpus(json, cuda);
  std::optional<Ceilings> ceilings;
  if (arguments.Has("ceilings")) {
    ceilings = MeasureCeilings();
    const auto known = [](double rate) { return rate > 0 ? nlohmann::ordered_json(rate) : nlohmann::ordered_json(); };
    json["fma_gflops"] = ceilings->gflops;
    json["bfloat16_gflops"] = known(ceilings->bfloat16_gflops);
    json["int8_gops"] = known(ceilings->int8_gops);
    json["copy_gbs"] = ceilings->copy_gbs;
    const Bandwidths bandwidths = MeasureBandwidths();
    json["read_gbs"] = bandwidths.read_gbs;
    json["in_place_gbs"] = bandwidths.in_place_gbs;
    json["cached_gbs"] = bandwidths.cached_gbs;
  }
  if (arguments.Has("json")) {
    PrintJson(json);
    return 0;
  }
  Print("CPU      {} ({}), {} cores\n", CpuName(), IsaName(), sysconf(_SC_NPROCESSORS_ONLN));
  Print("allowed  {}\nteam     {}, {}\n", AllowedText(), TeamText(), WaitText());
  Print("memory   {}\noneDNN   {}\n", BytesText(memory), json["onednn"].get<std::string>());
  PrintLines(GpuText(cuda));
  if (ceilings) {
    Print("ceiling  {}\n", PeaksText(*ceilings));
    Print("rates    {:.1f} GB/s copy, {:.1f} read, {:.1f} in place; {:.1f} in a core's caches\n",
          json["copy_gbs"].get<double>(), json["read_gbs"].get<double>(), json["in_place_gbs"].get<double>(),
          json["cached_gbs"].get<double>());
  }
  return 0;
}

}  // namespace

Verb DeviceVerb() {
  Verb verb;
  verb.name = "device";
  verb.summary = "what this machine offers: cores, instructions, memory, GPUs, measured limits";
  verb.usage = "[--ceilings] [--json]";
  verb.examples = {"moka device", "moka device --ceilings", "moka device --ceilings --json --threads 1",
                   "moka device --pin cores"};
  verb.options = {
      {"ceilings", "",
       "measure peak arithmetic (float32, bfloat16, 8-bit integers) and memory bandwidths (about two seconds)"},
      {"json", "", "print as JSON"}};
  verb.run = RunDevice;
  verb.most_words = 0;
  return verb;
}

}  // namespace moka

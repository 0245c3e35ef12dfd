// moka device: what this machine offers.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/cpus.h"
#include "core/parallel.h"
#include "core/team.h"
#include "core/text.h"
#include "graph/program.h"
#include "tools/ceilings.h"
#include "tools/machine.h"
#include "tools/team_setup.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  for (const Cpu& cpu : ProcessCpus().allowed) cpus.push_back(cpu.id);
  return cpus;
}

// What decides how many threads there are, and where they run.
void AddTeam(nlohmann::ordered_json& json) {
  const CpuFacts& facts = ProcessCpus();
  json["allowed_cpus"] = CpuListText(AllowedCpus());
  json["quota_cpus"] = facts.quota > 0 ? nlohmann::ordered_json(facts.quota) : nlohmann::ordered_json();
  json["local_ranks"] = facts.local_ranks;
  json["local_rank"] = facts.local_rank;
  json["is_pinned"] = HasPlaces();
  for (const std::vector<int>& cpus : TeamCpus()) json["team_cpus"].push_back(CpuListText(cpus));
}

std::string AllowedText() {
  const CpuFacts& facts = ProcessCpus();
  std::string text = StrCat("CPUs ", CpuListText(AllowedCpus()));
  if (facts.quota > 0) text += StrCat(", for the time of ", facts.quota);
  if (facts.local_ranks > 1) text += StrCat("; rank ", facts.local_rank, " of ", facts.local_ranks, " on this box");
  return text;
}

int Run(const Arguments& arguments) {
  const int64_t memory = MachineMemoryBytes();
  nlohmann::ordered_json json = {
      {"cpu", CpuName()},         {"isa", IsaName()},       {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
      {"threads", ThreadCount()}, {"memory_bytes", memory}, {"onednn", OnednnVersion()}};
  AddTeam(json);
  if (arguments.Has("ceilings")) {
    const Ceilings ceilings = MeasureCeilings();
    json["fma_gflops"] = ceilings.gflops;
    json["copy_gbs"] = ceilings.copy_gbs;
    const Bandwidths bandwidths = MeasureBandwidths();
    json["read_gbs"] = bandwidths.read_gbs;
    json["in_place_gbs"] = bandwidths.in_place_gbs;
    json["cached_gbs"] = bandwidths.cached_gbs;
  }
  if (arguments.Has("json")) {
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("CPU      {} ({}), {} cores\n", CpuName(), IsaName(), sysconf(_SC_NPROCESSORS_ONLN));
  fmt::print("allowed  {}\nteam     {}\n", AllowedText(), TeamText());
  fmt::print("memory   {}\noneDNN   {}\n", BytesText(memory), json["onednn"].get<std::string>());
  if (arguments.Has("ceilings")) {
    fmt::print("ceiling  {:.0f} GFLOP/s float32 multiply-add\n", json["fma_gflops"].get<double>());
    fmt::print("rates    {:.1f} GB/s copy, {:.1f} read, {:.1f} in place; {:.1f} in a core's caches\n",
               json["copy_gbs"].get<double>(), json["read_gbs"].get<double>(), json["in_place_gbs"].get<double>(),
               json["cached_gbs"].get<double>());
  }
  return 0;
}

}  // namespace

Verb DeviceVerb() {
  Verb verb;
  verb.name = "device";
  verb.summary = "what this machine offers: cores, instructions, memory, measured limits";
  verb.usage = "[--ceilings] [--json]";
  verb.examples = {"moka device", "moka device --ceilings", "moka device --ceilings --json --threads 1",
                   "moka device --pin cores"};
  verb.options = {{"ceilings", "", "measure peak arithmetic and memory bandwidths (about two seconds)"},
                  {"json", "", "print as JSON"}};
  verb.run = Run;
  return verb;
}

}  // namespace moka

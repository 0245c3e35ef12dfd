// moka device: what this machine offers.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/parallel.h"
#include "core/text.h"
#include "graph/program.h"
#include "tools/ceilings.h"
#include "tools/machine.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

int Run(const Arguments& arguments) {
  const int64_t memory = MachineMemoryBytes();
  nlohmann::ordered_json json = {
      {"cpu", CpuName()},         {"isa", IsaName()},       {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
      {"threads", ThreadCount()}, {"memory_bytes", memory}, {"onednn", OnednnVersion()}};
  if (arguments.Has("ceilings")) {
    const Ceilings ceilings = MeasureCeilings();
    json["fma_gflops"] = ceilings.gflops;
    json["copy_gbs"] = ceilings.copy_gbs;
  }
  if (arguments.Has("json")) {
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("CPU      {} ({}), {} cores, {} threads used\n", CpuName(), IsaName(), sysconf(_SC_NPROCESSORS_ONLN),
             ThreadCount());
  fmt::print("memory   {}\noneDNN   {}\n", BytesText(memory), json["onednn"].get<std::string>());
  if (arguments.Has("ceilings")) {
    fmt::print("ceiling  {:.0f} GFLOP/s float32 multiply-add, {:.1f} GB/s copy\n", json["fma_gflops"].get<double>(),
               json["copy_gbs"].get<double>());
  }
  return 0;
}

}  // namespace

Verb DeviceVerb() {
  Verb verb;
  verb.name = "device";
  verb.summary = "what this machine offers: cores, instructions, memory, measured limits";
  verb.usage = "[--ceilings] [--json]";
  verb.examples = {"moka device", "moka device --ceilings --json"};
  verb.options = {{"ceilings", "", "measure peak arithmetic and memory bandwidth (about a second)"},
                  {"json", "", "print as JSON"}};
  verb.run = Run;
  return verb;
}

}  // namespace moka

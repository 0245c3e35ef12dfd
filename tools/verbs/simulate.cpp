// moka simulate: how a training step scales over many devices, in virtual time (docs/scaling.md).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "comm/exchange/exchange_text.h"
#include "comm/schedule/wire.h"
#include "comm/simulate/scaling.h"
#include "comm/simulate/topology.h"
#include "comm/simulate/virtual_costs.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "core/trace.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/measure/net_profile.h"
#include "tools/nets/net_source.h"
#include "tools/nets/training_nets.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

// "37:1.25" as two numbers.
std::pair<double, double> Pair(const std::string& flag, const std::string& text) {
  const std::vector<std::string> words = Split(text, ':');
  if (words.size() == 2) return {NumberOfFlag(flag, words[0], 0, 1e9), NumberOfFlag(flag, words[1], 0, 1e9)};
  throw Error(ErrorKind::kUsage,
              StrCat("--", flag, " wants two numbers with a colon, found \"", Printable(text), "\""));
}

struct Setting {
  Topology topology;
  ModelProfile profile;
  Wire wire = Wire::kFloat32;
  NoiseOptions noise;
  int64_t bucket_bytes = 0;
  bool is_from_node = false;  // efficiency compares with one node in place of one device
};

ModelProfile ReadProfile(const Arguments& arguments) {
  if (arguments.positionals.size() != 1) {
    throw Error(ErrorKind::kUsage, {}, "moka simulate wants a model folder, a .prototxt or a profile (.tsv)",
                "see moka simulate --help");
  }
  const std::string& source = arguments.positionals[0];
  const double step_s = NumberOfFlag("step-ms", arguments.Get("step-ms", "0"), 0, 1e9) * 1e-3;
  if (source.ends_with(".tsv")) {
    ModelProfile profile = ProfileOfText(ReadLinesFile(source), source);
    if (step_s > 0) ScaleTo(profile, step_s);
    return profile;
  }
  NetReadOptions read;
  read.overrides = arguments.overrides;
  NetOptions options;
  options.state = StateOfFlags(arguments);
  options.state.set_phase(TRAIN);
  options.data_types = GuessDataTypes();
  const std::vector<NetParameter> nets = ReadNetsIn(source, read, options.state);
  if (nets.size() > 1) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("the solver in ", Printable(source), " trains ", nets.size(),
                       " nets in turns, and a simulation is of one"),
                "say which with --stage, or name the file of one");
  }
  const BuiltNet net = BuildNet(nets.front(), options);
  if (!arguments.Has("times")) {
    if (step_s > 0) return ProfileOfNet(net, step_s);
    throw Error(ErrorKind::kUsage, {}, "how long a step takes is not known",
                "set --step-ms, or --times to a file that `moka time --json` wrote");
  }
  ModelProfile profile = ProfileOfNet(net, std::filesystem::path(arguments.Get("times")));
  if (step_s > 0) ScaleTo(profile, step_s);
  return profile;
}

Setting ReadSetting(const Arguments& arguments) {
  Setting setting;
  setting.profile = ReadProfile(arguments);
  setting.wire = ValueOfFlag("wire", [&] { return WireOf(arguments.Get("wire", "float32")); });
  setting.bucket_bytes = arguments.Int("bucket-bytes", 26214400, 1, int64_t{1} << 40);
  const std::string baseline = arguments.Get("baseline", "device");
  if (baseline != "device" && baseline != "node") {
    throw Error(ErrorKind::kUsage, StrCat("--baseline wants device or node, found \"", Printable(baseline), "\""));
  }
  setting.is_from_node = baseline == "node";
  setting.noise.jitter = NumberOfFlag("jitter", arguments.Get("jitter", "0"), 0, 1);
  setting.noise.steps = static_cast<int>(arguments.Int("steps", 100, 1, 1000000));
  setting.noise.seed = static_cast<uint64_t>(arguments.Int("seed", 1, 0, INT64_MAX));
  if (arguments.Has("stall")) {
    const auto [probability, ms] = Pair("stall", arguments.Get("stall"));
    if (probability > 1) {
      throw Error(ErrorKind::kUsage, StrCat("--stall stalls a part of the steps from 0 to 1, found ", probability));
    }
    setting.noise.stall_probability = probability;
    setting.noise.stall_s = ms * 1e-3;
  }
  for (const std::string& word : Split(arguments.Get("slow"), ',')) {
    if (word.empty()) continue;
    const auto [rank, factor] = Pair("slow", word);
    setting.noise.slow[static_cast<int>(rank)] = factor;
  }
  return setting;
}

struct Row {
  int devices = 0;
  std::string fusion;
  std::string algorithm;
  FusionPlan plan = {};
  ScalingResult result = {};
  double baseline_s = 0;
  CostTable costs = {};

  double efficiency() const { return baseline_s / (result.compute_s + result.exposed_s); }
};

Row Simulate(const Setting& setting, int devices, const std::string& fusion, const std::string& algorithm) {
  Row row{.devices = devices, .fusion = fusion, .algorithm = algorithm};
  const int64_t element_bytes = BytesOf(setting.wire);
  const FusionInput input = FusionInputOf(setting.profile, element_bytes);
  row.costs =
      ValueOfFlag("algorithm", [&] { return VirtualCosts(setting.topology, devices, algorithm, element_bytes); });
  row.plan = ValueOfFlag("fusion", [&] { return PlanFusion(fusion, input, row.costs, setting.bucket_bytes); });
  NoiseOptions noise = setting.noise;
  std::erase_if(noise.slow, [&](const auto& entry) { return entry.first >= devices; });
  row.result = SimulateSteps(input, row.plan, devices, noise);
  row.baseline_s = row.result.step_s;
  if (setting.is_from_node && devices > setting.topology.devices_per_node) {
    const Row node = Simulate(setting, setting.topology.devices_per_node, fusion, "auto");
    row.baseline_s = node.result.compute_s + node.result.exposed_s;
  }
  return row;
}

// The algorithms of a plan's buckets, each once.
std::string UsedAlgorithms(const FusionPlan& plan) {
  std::vector<std::string> used;
  for (const Bucket& bucket : plan.buckets) {
    if (std::ranges::count(used, bucket.algorithm) == 0) used.push_back(bucket.algorithm);
  }
  return Join(used, "+");
}

void PrintSimulateTable(const Setting& setting, const std::vector<Row>& rows) {
  Print("{}: {:.1f} million learned values, a step of {:.1f} ms; machine {}; {} on the wire\n", setting.profile.name,
        static_cast<double>(setting.profile.elements()) * 1e-6, rows[0].result.step_s * 1e3, setting.topology.name,
        NameOf(setting.wire));
  Print("{:>8} {:<8} {:<28} {:>7} {:>10} {:>10} {:>9} {:>10} {}\n", "devices", "planner", "algorithm", "buckets",
        "efficiency", "exposed ms", "noise ms", "step ms", "slowest rank");
  for (const Row& row : rows) {
    const ScalingResult& r = row.result;
    Print("{:>8} {:<8} {:<28} {:>7} {:>8.2f} % {:>10.3f} {:>9.3f} {:>10.3f} {}\n", row.devices, row.fusion,
          UsedAlgorithms(row.plan), row.plan.buckets.size(), 100 * row.efficiency(), r.exposed_s * 1e3,
          (r.compute_s - r.step_s) * 1e3, (r.compute_s + r.exposed_s) * 1e3,
          r.slowest_rank < 0 ? "-" : fmt::format("{} ({:.0f} %)", r.slowest_rank, 100 * r.slowest_part));
  }
  Print("efficiency: the step of {} over the simulated one, same batch a device\n",
        setting.is_from_node ? "one node" : "one device without communication");
}

void PrintSimulateJson(const Setting& setting, const std::vector<Row>& rows) {
  nlohmann::ordered_json json = {{"model", setting.profile.name},
                                 {"learned_values", setting.profile.elements()},
                                 {"step_ms", rows[0].result.step_s * 1e3},
                                 {"machine", setting.topology.name},
                                 {"wire", std::string(NameOf(setting.wire))},
                                 {"baseline", setting.is_from_node ? "node" : "device"}};
  for (const Row& row : rows) {
    const ScalingResult& r = row.result;
    json["rows"].push_back({{"devices", row.devices},
                            {"planner", row.fusion},
                            {"algorithm", UsedAlgorithms(row.plan)},
                            {"buckets", row.plan.buckets.size()},
                            {"efficiency", row.efficiency()},
                            {"exposed_ms", r.exposed_s * 1e3},
                            {"noise_ms", (r.compute_s - r.step_s) * 1e3},
                            {"iteration_ms", (r.compute_s + r.exposed_s) * 1e3},
                            {"slowest_rank", r.slowest_rank},
                            {"slowest_part", r.slowest_part}});
  }
  PrintJson(json, 1);
}

int64_t Micros(double seconds) { return std::llround(seconds * 1e6); }

// One iteration of the row as predicted, without noise: layers on the device's lane, buckets on the network's.
void WriteTrace(const Setting& setting, const Row& row, const std::string& path) {
  std::vector<std::string> names;
  for (const Bucket& bucket : row.plan.buckets) {
    names.push_back(fmt::format("bucket {}: {} gradients, {}, {}", names.size(), bucket.count, BytesText(bucket.bytes),
                                bucket.algorithm));
  }
  constexpr int64_t kDeviceLane = 1;
  constexpr int64_t kNetworkLane = 2;
  NameTraceLane("device", kDeviceLane);
  NameTraceLane("network", kNetworkLane);
  StartTrace();
  double now = 0;
  const std::vector<ProfileLayer>& layers = setting.profile.layers;
  for (const ProfileLayer& layer : layers) {
    TraceSpan(layer.name, "forward", Micros(now), Micros(now + layer.forward_s), kDeviceLane);
    now += layer.forward_s;
  }
  const double backward = now;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    TraceSpan(layer->name, "backward", Micros(now), Micros(now + layer->backward_s), kDeviceLane);
    now += layer->backward_s;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const Bucket& bucket = row.plan.buckets[i];
    TraceSpan(names[i], "all-reduce", Micros(backward + bucket.begin_s), Micros(backward + bucket.end_s), kNetworkLane);
  }
  StopTrace(path);
}

std::vector<int> DeviceCounts(const Arguments& arguments, const Topology& topology) {
  if (!arguments.Has("devices")) return topology.devices;
  std::vector<int> counts;
  for (const std::string& word : Split(arguments.Get("devices"), ',')) {
    counts.push_back(static_cast<int>(NumberOfFlag("devices", word, 1, 1 << 20)));
  }
  return counts;
}

int RunSimulate(const Arguments& arguments) {
  Setting setting = ReadSetting(arguments);
  if (arguments.Has("profile")) {
    PrintLines(ToText(setting.profile));
    return 0;
  }
  if (!arguments.Has("topology")) {
    throw Error(ErrorKind::kUsage, {}, "moka simulate wants --topology FILE", "tools/launch/topologies has some");
  }
  const std::string file = arguments.Get("topology");
  setting.topology = TopologyOfText(ReadLinesFile(file), file);
  std::vector<Row> rows;
  const std::vector<int> counts = DeviceCounts(arguments, setting.topology);
  for (const auto& [rank, factor] : setting.noise.slow) {
    if (rank < std::ranges::max(counts)) continue;
    throw Error(ErrorKind::kUsage,
                StrCat("--slow: there is no rank ", rank, " among at most ", std::ranges::max(counts)));
  }
  for (const int devices : counts) {
    for (const std::string& fusion : Split(arguments.Get("fusion", "optimal"), ',')) {
      for (const std::string& algorithm : Split(arguments.Get("algorithm", "auto"), ',')) {
        rows.push_back(Simulate(setting, devices, fusion, algorithm));
        if (!arguments.Has("explain")) continue;
        PrintLines(StrCat(devices, " devices: ",
                          ExplainExchange({.plan = rows.back().plan,
                                           .input = FusionInputOf(setting.profile, BytesOf(setting.wire)),
                                           .costs = rows.back().costs})));
      }
    }
  }
  if (arguments.Has("trace")) WriteTrace(setting, rows.back(), arguments.Get("trace"));
  if (arguments.Has("explain")) return 0;
  arguments.Has("json") ? PrintSimulateJson(setting, rows) : PrintSimulateTable(setting, rows);
  return 0;
}

}  // namespace

Verb SimulateVerb() {
  Verb verb;
  verb.name = "simulate";
  verb.summary = "how a training step scales over many devices, in virtual time";
  verb.usage = "MODEL|FILE.prototxt|PROFILE.tsv --topology FILE [--flags]";
  verb.examples = {
      "moka simulate models/resnet50 --step-ms 294 --topology tools/launch/topologies/p40_100g.topology",
      "moka simulate tools/launch/profiles/resnet50.tsv --topology my.topology --devices 64,1024 "
      "--fusion none,optimal --algorithm ring,hierarchical:16",
      "moka simulate net.prototxt --times times.json --topology my.topology --jitter 0.02 --trace one.json"};
  verb.options = {
      {"topology", "FILE", "the machine (tools/launch/topologies)"},
      {"devices", "LIST", "numbers of devices (default: the machine's list)"},
      {"fusion", "LIST", "optimal (default), greedy, two, fixed, single, none"},
      {"algorithm", "LIST", "auto (default) or names, groups and dimensions behind: hierarchical:16, torus:8x128"},
      {"wire", "TYPE", "float32 (default), float16 or bfloat16"},
      {"bucket-bytes", "N", "of the planner fixed (default 26214400)"},
      {"step-ms", "X", "forward and backward pass of one device; parts follow the work, or the profile"},
      {"times", "FILE", "measured times of the layers, by `moka time --json`"},
      {"jitter", "X", "sigma of each rank's lognormal factor, a part of the step"},
      {"stall", "P:MS", "a rank stalls for MS in a part P of the steps"},
      {"slow", "LIST", "ranks that are always slower, as RANK:FACTOR"},
      {"steps", "N", "steps with noise to average (default 100)"},
      {"seed", "N", "of the noise (default 1)"},
      {"baseline", "WHAT", "what efficiency compares with: device (default) or node"},
      {"explain", "", "the buckets of each row, and what all-reduces cost, in place of the table"},
      {"profile", "", "print the net's profile (.tsv) and stop"},
      {"trace", "FILE", "one iteration of the last row as a Chrome trace"},
      {"json", "", "print as JSON"}};
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.computes = false;
  verb.run = RunSimulate;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka

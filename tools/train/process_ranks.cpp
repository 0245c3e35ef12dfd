// Counts ranks from --gpu or --ranks, and gives each thread the words that it would have as a process of its own.
#include "tools/train/process_ranks.h"

#include "core/error.h"
#include "core/text.h"
#include "tools/cli/device_choice.h"

namespace moka {
namespace {

constexpr int kMostThreadRanks = 256;

// Caffe's --gpu=all.
bool WantsAllGpus(const Arguments& arguments) { return !arguments.Has("device") && arguments.Get("gpu") == "all"; }

std::vector<std::string> AllGpus() {
  const CudaFacts facts = FindCuda();
  if (facts.gpus.empty()) {
    throw Error(ErrorKind::kUnavailable, {}, StrCat("--gpu=all: there is no GPU (", facts.missing, ")"),
                "`moka device` lists the GPUs and says what is missing; --device=cpu computes on the CPU");
  }
  std::vector<std::string> numbers;
  for (size_t i = 0; i < facts.gpus.size(); ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

// The flag that lists several devices; empty if none does.
std::string ListingFlag(const Arguments& arguments) {
  if (WantsAllGpus(arguments)) return "gpu";
  const std::string flag = arguments.Has("device") ? "device" : "gpu";  // DeviceOf looks at them in this order
  return arguments.Get(flag).find(',') == std::string::npos ? std::string() : flag;
}

// GPUs sum on the GPU and CPUs in their memory, so ranks are of one kind.
void CheckThreadDevices(const Arguments& arguments, const ProcessRanks& ranks) {
  bool has_cpu = false;
  bool has_gpu = false;
  for (size_t rank = 0; rank < ranks.devices.size(); ++rank) {
    const Device device = DeviceOf(ArgumentsOfRank(arguments, ranks, static_cast<int>(rank)));
    (device.is_cpu() ? has_cpu : has_gpu) = true;
  }
  if (!has_cpu || !has_gpu) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat("--", ranks.flag, "=", Join(ranks.devices, ","), ": ranks compute all on GPUs or all on CPUs"));
}

}  // namespace

bool ListsDevices(const Arguments& arguments) { return !ListingFlag(arguments).empty(); }

ProcessRanks RanksOfProcess(const Arguments& arguments, const SolverParameter& solver) {
  ProcessRanks ranks;
  const bool has_count = arguments.Has("ranks");
  if (has_count) ranks.count = static_cast<int>(arguments.Int("ranks", 1, 1, kMostThreadRanks));
  ranks.flag = ListingFlag(arguments);
  if (!ranks.flag.empty()) {
    ranks.devices = WantsAllGpus(arguments) ? AllGpus() : Split(arguments.Get(ranks.flag), ',');
  } else if (!has_count && solver.device_id_size() > 1 && !arguments.Has("device") && !arguments.Has("gpu") &&
             solver.solver_mode() != SolverParameter::CPU && !FindCuda().gpus.empty()) {
    ranks.flag = "device";
    for (const int id : solver.device_id()) ranks.devices.push_back(StrCat("gpu:", id));
  }
  if (ranks.devices.empty()) return ranks;
  const auto listed = static_cast<int>(ranks.devices.size());
  if (has_count && listed != ranks.count) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--ranks=", ranks.count, " and --", ranks.flag, " with ", listed, " devices: each rank has one"),
                "leave out --ranks: there is a rank for each device");
  }
  ranks.count = listed;
  CheckThreadDevices(arguments, ranks);
  return ranks;
}

Arguments ArgumentsOfRank(const Arguments& arguments, const ProcessRanks& ranks, int rank) {
  Arguments own = arguments;
  if (!ranks.devices.empty()) own.options[ranks.flag] = ranks.devices.at(static_cast<size_t>(rank));
  return own;
}

void RefuseRanksOfProcess(const Arguments& arguments) {
  const std::string flag = arguments.Has("ranks") ? "ranks" : ListingFlag(arguments);
  if (flag.empty()) return;
  throw Error(ErrorKind::kUsage, {},
              StrCat("--", flag, "=", Printable(arguments.Get(flag)),
                     " makes ranks of this process, and a launcher has started it as one of several"),
              flag == "ranks" ? "leave out --ranks, or mpirun"
                              : "with --device=gpu each rank takes the GPU of its place on its host");
}

}  // namespace moka

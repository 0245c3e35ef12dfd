// Pure functions of facts, tested by tables: each check is a line and a hint.
#include "tools/launch/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kNameWidth = 14;

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string Counted(size_t n, const std::string& one) { return StrCat(n, " ", one, n == 1 ? "" : "s"); }

bool Answered(const HostFacts& facts) { return facts.missing.empty(); }

int SlotsOf(const std::vector<HostSlots>& hosts, const std::string& name) {
  const auto it = std::ranges::find(hosts, name, &HostSlots::name);
  return it == hosts.end() ? 0 : it->slots;
}

// "oneDNN is 2.6.3 here and 3.1.0 there": the first part in which two builds differ.
std::string BuildDifference(const std::string& here, const std::string& there) {
  const auto a = nlohmann::ordered_json::parse(here, nullptr, false);
  const auto b = nlohmann::ordered_json::parse(there, nullptr, false);
  if (!a.is_object() || !b.is_object()) return "does not say its build";
  for (const auto& [part, version] : a.items()) {
    const std::string other = b.contains(part) ? b[part].dump() : "nothing";
    if (version.dump() != other) return StrCat(part, " is ", version.dump(), " here and ", other, " there");
  }
  return "is another build";
}

// "node1: 4 ranks on 2 CPUs and 1 GPU".
std::string CpuText(const HostFacts& facts, int ranks) {
  return StrCat(facts.host, ": ", Counted(static_cast<size_t>(ranks), "rank"), " on ",
                Counted(static_cast<size_t>(facts.cpus), "CPU"),
                facts.gpus > 0 ? StrCat(" and ", Counted(static_cast<size_t>(facts.gpus), "GPU")) : "");
}

}  // namespace

std::string CheckLine(const Check& check) {
  const char* verdict = check.verdict == Verdict::kOk ? "ok" : check.verdict == Verdict::kNote ? "note" : "FAILED";
  std::string line = StrCat(Padded(verdict, 8), Padded(check.name, kNameWidth), check.text);
  if (!check.remedy.empty()) line += StrCat("; ", check.remedy);
  return line;
}

bool AllPass(const std::vector<Check>& checks) {
  return std::ranges::none_of(checks, [](const Check& check) { return check.verdict == Verdict::kFailed; });
}

Check CheckHosts(const std::vector<HostFacts>& facts, const std::string& ssh) {
  std::vector<std::string> names;
  for (const HostFacts& host : facts) {
    if (!Answered(host)) {
      return {Verdict::kFailed, "hosts", StrCat(host.host, " does not answer: ", host.missing),
              StrCat("this must work without a password: ", ssh, " -o BatchMode=yes ", host.host, " true")};
    }
    names.push_back(host.host);
  }
  return {Verdict::kOk, "hosts", StrCat(Counted(facts.size(), "host"), ": ", Join(names, ", ")), ""};
}

Check CheckBuild(const std::vector<HostFacts>& facts, const std::string& here, const std::string& path) {
  for (const HostFacts& host : facts) {
    if (Answered(host) && host.build != here) {
      return {Verdict::kFailed, "build", StrCat(host.host, ": ", BuildDifference(here, host.build)),
              StrCat("copy ", path, " and its libraries there, or run it from a folder that all hosts share")};
    }
  }
  const auto json = nlohmann::ordered_json::parse(here, nullptr, false);
  const std::string build = json.is_object() ? json.value("build", "") : "";
  return {Verdict::kOk, "build", StrCat(build, facts.size() > 1 ? " on every host" : ""), ""};
}

Check CheckSharedMemory(const std::vector<HostFacts>& facts, const std::vector<HostSlots>& hosts) {
  std::string least;
  int64_t least_free = 0;
  for (const HostFacts& host : facts) {
    const int ranks = SlotsOf(hosts, host.host);
    if (!Answered(host) || ranks < 2) continue;  // a rank alone on its host shares memory with none
    const int64_t needed = ranks * kShmBytesPerRank;
    if (host.shm_free_bytes < needed) {
      return {Verdict::kFailed, "shared memory",
              StrCat(host.host, ": /dev/shm has ", BytesText(host.shm_free_bytes), " free of ",
                     BytesText(host.shm_bytes), ", and ", ranks, " ranks may take ", BytesText(needed)),
              StrCat("make room there, or enlarge it: mount -o remount,size=", 2 * needed >> 20,
                     "M /dev/shm; in Docker: --shm-size; in Kubernetes: an emptyDir with medium Memory")};
    }
    if (least.empty() || host.shm_free_bytes < least_free) {
      least = host.host;
      least_free = host.shm_free_bytes;
    }
  }
  if (least.empty()) return {Verdict::kOk, "shared memory", "not used: one rank a host", ""};
  return {Verdict::kOk, "shared memory", StrCat(BytesText(least_free), " free in /dev/shm of ", least), ""};
}

Check CheckClocks(const std::vector<HostFacts>& facts) {
  double worst = 0;
  for (const HostFacts& host : facts) {
    if (!Answered(host)) continue;
    if (std::abs(host.clock_ahead_s) > kClockLimitS + host.clock_error_s) {
      return {Verdict::kFailed, "clocks",
              fmt::format("{} is {:.1f} s {} (known within {:.1f} s, limit {:.1f} s)", host.host,
                          std::abs(host.clock_ahead_s), host.clock_ahead_s > 0 ? "ahead" : "behind", host.clock_error_s,
                          kClockLimitS),
              "run an NTP client there, such as chrony"};
    }
    worst = std::max(worst, std::abs(host.clock_ahead_s));
  }
  if (facts.size() < 2) return {Verdict::kOk, "clocks", "one host, one clock", ""};
  return {Verdict::kOk, "clocks", fmt::format("within {:.1f} s of this host's", worst), ""};
}

Check CheckDevices(const std::vector<HostFacts>& facts, const std::vector<HostSlots>& hosts, bool uses_gpus) {
  std::vector<std::string> texts;
  bool is_crowded = false;
  for (const HostFacts& host : facts) {
    const int ranks = SlotsOf(hosts, host.host);
    if (!Answered(host)) continue;
    const std::string text = CpuText(host, ranks);
    if (uses_gpus && host.gpus < ranks) {
      return {Verdict::kFailed, "devices", text,
              host.gpus == 0 ? StrCat("see moka device on ", host.host, ", or train with --device=cpu")
                             : StrCat("give it ", host.gpus, " slots, a rank a GPU")};
    }
    is_crowded = is_crowded || host.cpus < ranks;
    texts.push_back(text);
  }
  if (is_crowded) return {Verdict::kNote, "devices", Join(texts, "; "), "ranks will wait for each other's CPUs"};
  return {Verdict::kOk, "devices", Join(texts, "; "), ""};
}

Check CheckNetwork(const std::vector<HostFacts>& facts, const NetworkChoice& choice) {
  const size_t answered = static_cast<size_t>(std::ranges::count_if(facts, Answered));
  if (answered < 2) return {Verdict::kOk, "network", choice.why, ""};
  if (choice.network.empty())
    return {Verdict::kFailed, "network", choice.why, "say one that every host is in with --network=ADDRESS/BITS"};
  for (const HostFacts& host : facts) {
    if (host.unreached.empty()) continue;
    return {Verdict::kFailed, "network",
            StrCat(choice.network, ": ", host.host, " does not reach ", Join(host.unreached, ", ")),
            "open the firewall between these hosts, or say another network with --network=ADDRESS/BITS"};
  }
  return {Verdict::kOk, "network", choice.why, ""};
}

Check CheckLauncher(const std::string& program, int code, const std::string& version) {
  const std::string first = Printable(Trim(version.substr(0, version.find('\n'))));
  if (code != 0) {
    return {Verdict::kFailed, "launcher", StrCat(program, " does not start"),
            "install it (apt-get install openmpi-bin), or say where it is with --mpirun=PROGRAM"};
  }
  const bool is_slurm = version.starts_with("slurm");
  if (!is_slurm && version.find("Open MPI") == std::string::npos) {
    return {Verdict::kFailed, "launcher", StrCat(program, " is not Open MPI's: ", first),
            "its flags differ; say another with --mpirun=PROGRAM, or start the ranks yourself"};
  }
  return {Verdict::kOk, "launcher", first, ""};
}

}  // namespace moka

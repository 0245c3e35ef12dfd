// The checks before ranks start, as functions of facts: each ends in a line that says what was found and, if it will
// not do, what to do. The order is that in which a person would mend things.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/host_facts.h"
#include "tools/launch/hosts.h"
#include "tools/launch/network.h"

namespace moka {

enum class Verdict { kOk, kNote, kFailed };

struct Check {
  Verdict verdict = Verdict::kOk;
  std::string name;    // "clocks"
  std::string text;    // what was found
  std::string remedy;  // what to do; empty when it is ok
};

// "ok      clocks   within 0.1 s", "FAILED  clocks   b is 7.2 s ahead: run an NTP client there (apt-get install
// chrony)".
std::string CheckLine(const Check& check);
bool AllPass(const std::vector<Check>& checks);

// How far clocks may differ, in seconds: ages in status files and merged timelines are read by them.
inline constexpr double kClockLimitS = 1.0;
// Bytes of /dev/shm that a rank may take for messages to the others on its host.
inline constexpr int64_t kShmBytesPerRank = int64_t{64} << 20;

Check CheckHosts(const std::vector<HostFacts>& facts, const std::string& ssh);
// Every host has this build. `here`: VersionJson() of this program.
Check CheckBuild(const std::vector<HostFacts>& facts, const std::string& here, const std::string& path);
Check CheckSharedMemory(const std::vector<HostFacts>& facts, const std::vector<HostSlots>& hosts);
Check CheckClocks(const std::vector<HostFacts>& facts);
// Ranks of each host against its CPUs, and against its GPUs when they are to be used.
Check CheckDevices(const std::vector<HostFacts>& facts, const std::vector<HostSlots>& hosts, bool uses_gpus);
Check CheckNetwork(const std::vector<HostFacts>& facts, const NetworkChoice& choice);
// `version`: what the launcher's program printed when asked for its version; `code`: how it ended.
Check CheckLauncher(const std::string& program, int code, const std::string& version);

}  // namespace moka

// Hosts and how many ranks each takes: read from the command line or a hostfile, and written for mpirun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moka {

struct HostSlots {
  std::string name;
  int slots = 1;

  bool operator==(const HostSlots&) const = default;
};

// "a:2,b" as a with two slots and b with one. Errors: kUsage for an empty or repeated name, or slots that are no
// number.
std::vector<HostSlots> ParseHosts(std::string_view text);

// Open MPI's hostfile, a host a line: "a slots=2", "a" or "a:2"; # begins a comment. `file` is named in errors.
// Errors: kBadData with the line.
std::vector<HostSlots> ParseHostfile(std::string_view text, const std::string& file);

// "a slots=2", a line each.
std::string HostfileText(const std::vector<HostSlots>& hosts);

// The host of every rank, as mpirun places them: the first host's slots are filled first.
// Errors: kUsage when there are fewer slots than ranks.
std::vector<std::string> PlaceRanks(const std::vector<HostSlots>& hosts, int ranks);

// The hosts for one rank less: without a slot of `host`, or of the last one if there is no such host. A host without
// slots is gone. Requires: two slots in all.
std::vector<HostSlots> WithoutSlot(std::vector<HostSlots> hosts, const std::string& host);

int SlotCount(const std::vector<HostSlots>& hosts);

// Whether a name means this machine: localhost, 127.0.0.1, or the machine's own name, whole or up to its first dot.
bool IsThisHost(const std::string& name);

}  // namespace moka

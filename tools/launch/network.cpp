// Intersects the hosts' networks by address and mask and takes the one whose slowest link is fastest.
#include "tools/launch/network.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "core/text.h"

namespace moka {
namespace {

// A network that all hosts are in.
struct NetworkCandidate {
  std::string network;
  std::vector<std::string> addresses;
  std::set<std::string> names;  // of the interfaces
  int64_t mbits_per_s = 0;      // of the slowest link; 0: one of them does not say
};

const HostInterface* InterfaceIn(const HostFacts& facts, const std::string& network) {
  for (const HostInterface& interface : facts.interfaces) {
    if (!interface.is_loopback && NetworkOf(interface) == network) return &interface;
  }
  return nullptr;
}

std::optional<NetworkCandidate> CandidateOf(const std::vector<HostFacts>& hosts, const std::string& network) {
  NetworkCandidate candidate{network, {}, {}, std::numeric_limits<int64_t>::max()};
  for (const HostFacts& host : hosts) {
    const HostInterface* interface = InterfaceIn(host, network);
    if (interface == nullptr) return std::nullopt;
    candidate.addresses.push_back(interface->address);
    candidate.names.insert(interface->name);
    candidate.mbits_per_s = std::min(candidate.mbits_per_s, interface->mbits_per_s);
  }
  const std::set<std::string> different(candidate.addresses.begin(), candidate.addresses.end());
  if (different.size() < candidate.addresses.size()) return std::nullopt;
  return candidate;
}

std::string SpeedText(int64_t mbits_per_s) {
  if (mbits_per_s == 0) return "";
  return mbits_per_s % 1000 == 0 ? StrCat(" ", mbits_per_s / 1000, " Gb/s") : StrCat(" ", mbits_per_s, " Mb/s");
}

// "a: eth0 10.0.0.1/24; b: eth0 192.168.1.5/24".
std::string AllInterfacesText(const std::vector<HostFacts>& hosts) {
  std::vector<std::string> texts;
  for (const HostFacts& host : hosts) texts.push_back(StrCat(host.host, ": ", InterfacesText(host)));
  return Join(texts, "; ");
}

}  // namespace

std::string InterfacesText(const HostFacts& facts) {
  std::vector<std::string> texts;
  for (const HostInterface& interface : facts.interfaces) {
    if (interface.is_loopback) continue;
    texts.push_back(
        StrCat(interface.name, " ", interface.address, "/", interface.prefix, SpeedText(interface.mbits_per_s)));
  }
  return texts.empty() ? "loopback only" : Join(texts, ", ");
}

NetworkChoice ChooseNetwork(const std::vector<HostFacts>& facts, const std::string& asked) {
  std::vector<HostFacts> hosts;
  std::ranges::copy_if(facts, std::back_inserter(hosts), [](const HostFacts& host) { return host.missing.empty(); });
  if (hosts.size() < 2) return {"", "one host: ranks talk inside it", {}};
  std::vector<NetworkCandidate> candidates;
  for (const HostInterface& interface : hosts[0].interfaces) {
    const std::string network = NetworkOf(interface);
    if (interface.is_loopback || (!asked.empty() && network != asked)) continue;
    if (std::optional<NetworkCandidate> candidate = CandidateOf(hosts, network)) candidates.push_back(*candidate);
  }
  if (candidates.empty()) {
    return {"",
            StrCat(asked.empty() ? "no network has every host in it: " : asked + " has not every host in it: ",
                   AllInterfacesText(hosts)),
            {}};
  }
  const auto best = std::ranges::max_element(candidates, {}, &NetworkCandidate::mbits_per_s);  // the first of equals
  const std::string names = Join({best->names.begin(), best->names.end()}, ", ");
  std::string why = StrCat(best->network, " (", names, SpeedText(best->mbits_per_s), "): ");
  if (!asked.empty()) {
    why += "as asked";
  } else if (candidates.size() == 1) {
    why += "the one network that every host is in";
  } else {
    why += StrCat("the fastest of ", candidates.size(), " networks that every host is in");
  }
  return {best->network, why, best->addresses};
}

}  // namespace moka

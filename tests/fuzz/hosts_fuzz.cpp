// Where ranks start: a hostfile, a list of --hosts, and the line of JSON in which a host tells of itself. The first
// byte says which.
#include "tests/fuzz/fuzz_target.h"
#include "tools/launch/host_facts.h"
#include "tools/launch/hosts.h"
#include "tools/launch/network.h"
#include "tools/launch/preflight.h"

namespace moka {
namespace {

void Place(const std::vector<HostSlots>& hosts) {
  Require(SlotCount(hosts) >= static_cast<int>(hosts.size()), "every host has a slot");
  Require(ParseHostfile(HostfileText(hosts), "written") == hosts, "hostfiles read back");
  Require(PlaceRanks(hosts, 1).size() == 1, "a host for each rank");
}

void CheckFacts(const HostFacts& facts) {
  const HostFacts again = ParseHostFacts(HostFactsLine(facts));
  Require(again.host == facts.host && again.cpus == facts.cpus, "facts read back");
  const std::vector<HostFacts> all = {facts, again};
  const std::vector<HostSlots> hosts = {{facts.host, 2}, {"b", 1}};
  for (const Check& check :
       {CheckHosts(all, "ssh"), CheckBuild(all, R"({"build": "x"})", "moka"), CheckSharedMemory(all, hosts),
        CheckClocks(all), CheckDevices(all, hosts, true), CheckNetwork(all, ChooseNetwork(all, ""))}) {
    CheckLine(check);
  }
}

}  // namespace

FuzzTarget HostsFuzz() {
  return {"hosts", [](std::string_view text) {
            if (text.empty()) return;
            const char what = text.front();
            text.remove_prefix(1);
            if (what == 'f') return Place(ParseHostfile(text, "hosts"));
            if (what == 'l') return Place(ParseHosts(text));
            CheckFacts(ParseHostFacts(text));
          }};
}

}  // namespace moka

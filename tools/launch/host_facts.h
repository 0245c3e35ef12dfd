// The facts that a launch has to know of a host before ranks start there. Every host tells it of itself: `moka launch
// --facts` prints it as one line of JSON, which the launching host reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// An interface that is up and has an IPv4 address.
struct HostInterface {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.1"
  int prefix = 32;      // bits of the address that name its network
  bool is_loopback = false;
  int64_t mbits_per_s = 0;  // 0: the system does not say
};

struct HostFacts {
  std::string host;     // its own name, or as the user named it
  std::string missing;  // why the host could not be asked; then nothing below is known
  std::string build;    // VersionJson() there
  int64_t shm_bytes = 0;
  int64_t shm_free_bytes = 0;
  double time_s = 0;         // its clock, seconds since 1970, when it was asked
  double clock_ahead_s = 0;  // its clock against the launching host's, known but for +- clock_error_s
  double clock_error_s = 0;
  int cpus = 0;
  int gpus = 0;
  std::vector<HostInterface> interfaces{};
  std::vector<std::string> unreached{};  // addresses of other hosts that it was asked to reach and could not
};

// The facts of this host, with the addresses of `reach` tried. Takes up to two seconds an address that cannot be
// reached. Never fails: what cannot be read is 0.
HostFacts ReadHostFacts(const std::vector<std::string>& reach);

// One line of JSON, without `missing` and what the clock was compared with, and back. Errors: kBadData.
std::string HostFactsLine(const HostFacts& facts);
HostFacts ParseHostFacts(std::string_view line);

// The network of an interface, "10.0.0.0/24"; empty for an address that is none.
std::string NetworkOf(const HostInterface& interface);

}  // namespace moka

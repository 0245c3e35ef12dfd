// Reads interfaces, CPUs, GPUs, memory and versions here; whether other hosts can be reached is tried by a connection
// that may be refused.
#include "tools/launch/host_facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/device/device.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json_whole.h"
#include "core/text.h"
#include "core/threads/team.h"
#include "core/wall_clock.h"
#include "tools/cli/version.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReachTimeoutMs = 2000;
// Any port tells whether packets go both ways: a refusal comes from the host, too. Most hosts have ssh there.
constexpr uint16_t kReachPort = 22;

std::string AddressText(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr ? "" : text.data();
}

int64_t LinkSpeed(const std::string& name) {
  int64_t speed = 0;
  std::ifstream("/sys/class/net/" + name + "/speed") >> speed;  // virtual links have none to read
  return std::max<int64_t>(0, speed);
}

std::vector<HostInterface> ReadInterfaces() {
  std::vector<HostInterface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != AF_INET || (it->ifa_flags & IFF_UP) == 0) continue;
    HostInterface interface;
    interface.name = it->ifa_name;
    interface.address = AddressText(*reinterpret_cast<const sockaddr_in*>(it->ifa_addr));
    if (it->ifa_netmask != nullptr)
      interface.prefix = std::popcount(reinterpret_cast<const sockaddr_in*>(it->ifa_netmask)->sin_addr.s_addr);
    interface.is_loopback = (it->ifa_flags & IFF_LOOPBACK) != 0;
    interface.mbits_per_s = LinkSpeed(interface.name);
    interfaces.push_back(interface);
  }
  freeifaddrs(list);
  return interfaces;
}

// Slurm's name of the node comes first: one machine may be several nodes.
std::string OwnName() {
  if (const char* node = std::getenv("SLURMD_NODENAME")) return node;  // NOLINT(concurrency-mt-unsafe)
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Whether a host answers at the address, be it with a refusal.
bool Reaches(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kReachPort);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) return false;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd waiting{fd, POLLOUT, 0};
    socklen_t size = sizeof error;
    if (poll(&waiting, 1, kReachTimeoutMs) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = ETIMEDOUT;
  }
  close(fd);
  return error == 0 || error == ECONNREFUSED;
}

}  // namespace

HostFacts ReadHostFacts(const std::vector<std::string>& reach) {
  HostFacts facts;
  facts.host = OwnName();
  facts.build = VersionJson();
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    facts.shm_bytes = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
    facts.shm_free_bytes = static_cast<int64_t>(shm.f_bavail * shm.f_frsize);
  }
  facts.cpus = static_cast<int>(ProcessCpus().allowed.size());
  facts.gpus = static_cast<int>(FindCuda().gpus.size());
  facts.interfaces = ReadInterfaces();
  for (const std::string& address : reach) {
    if (!Reaches(address)) facts.unreached.push_back(address);
  }
  facts.time_s = SecondsSince1970();
  return facts;
}

std::string HostFactsLine(const HostFacts& facts) {
  Json json;
  json["host"] = facts.host;
  json["build"] = facts.build;
  json["shm_bytes"] = facts.shm_bytes;
  json["shm_free_bytes"] = facts.shm_free_bytes;
  json["cpus"] = facts.cpus;
  json["gpus"] = facts.gpus;
  json["interfaces"] = Json::array();
  for (const HostInterface& interface : facts.interfaces) {
    json["interfaces"].push_back({{"name", interface.name},
                                  {"address", interface.address},
                                  {"prefix", interface.prefix},
                                  {"is_loopback", interface.is_loopback},
                                  {"mbits_per_s", interface.mbits_per_s}});
  }
  json["unreached"] = facts.unreached;
  json["time_s"] = facts.time_s;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HostFacts ParseHostFacts(std::string_view line) {
  HostFacts facts;
  try {
    const Json json = Json::parse(line);
    facts.host = json.at("host");
    facts.build = json.at("build");
    facts.shm_bytes = JsonWhole<int64_t>(json.at("shm_bytes"));
    facts.shm_free_bytes = JsonWhole<int64_t>(json.at("shm_free_bytes"));
    facts.cpus = JsonWhole<int>(json.at("cpus"));
    facts.gpus = JsonWhole<int>(json.at("gpus"));
    facts.unreached = json.at("unreached").get<std::vector<std::string>>();
    facts.time_s = json.at("time_s");
    for (const Json& one : json.at("interfaces")) {
      facts.interfaces.push_back({one.at("name"), one.at("address"), JsonWhole<int>(one.at("prefix")),
                                  one.at("is_loopback"), JsonWhole<int64_t>(one.at("mbits_per_s"))});
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kBadData, StrCat("not the facts of a host: ", error.what()));
  } catch (const Error& error) {
    throw Error(ErrorKind::kBadData, StrCat("not the facts of a host: ", error.text()));
  }
  return facts;
}

std::string NetworkOf(const HostInterface& interface) {
  sockaddr_in address{};
  if (inet_pton(AF_INET, interface.address.c_str(), &address.sin_addr) != 1) return {};
  const int prefix = std::clamp(interface.prefix, 0, 32);
  const uint32_t mask = prefix == 0 ? 0 : ~uint32_t{0} << (32 - prefix);
  address.sin_addr.s_addr = htonl(ntohl(address.sin_addr.s_addr) & mask);
  return StrCat(AddressText(address), "/", prefix);
}

}  // namespace moka

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>

#include "comm/mpi_world.h"

namespace moka {

bool IsLaunched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

std::string HostName() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "host";
}

int LocalRank(const Communicator& world) {
  const std::vector<std::string>& hosts = world.hosts();
  const auto mine = hosts.begin() + world.rank();
  return static_cast<int>(std::count(hosts.begin(), mine, *mine));
}

}  // namespace moka

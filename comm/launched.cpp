#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "comm/mpi_world.h"

namespace moka {
namespace {

// The first of the variables that is a number; otherwise the fallback.
int NumberOf(std::initializer_list<const char*> variables, int fallback) {
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody writes the environment
    if (value == nullptr) continue;
    const std::string_view text = value;
    int number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code == std::errc() && end == text.data() + text.size() && number >= 0) return number;
  }
  return fallback;
}

}  // namespace

bool IsLaunched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

int LaunchedRank() { return NumberOf({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, -1); }
int LaunchedRanks() { return NumberOf({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1); }

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

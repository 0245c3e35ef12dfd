// Reads rank and size from the variables of the launchers in use, without MPI: they are needed before MPI may be
// initialised, and by verbs that never do.
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "comm/transport/mpi_world.h"

namespace moka {
namespace {

std::optional<int> NumberOf(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody writes the environment
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

struct Place {
  int rank = -1;
  int ranks = 1;
};

struct PlaceVariables {
  const char* ranks;
  const char* rank;
};

// Open MPI, MPICH and Intel MPI, MVAPICH, torchrun, Slurm: the inner of two comes first, for srun may start torchrun.
constexpr PlaceVariables kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                         {"PMI_SIZE", "PMI_RANK"},
                                         {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                         {"WORLD_SIZE", "RANK"},
                                         {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

// Half of a pair says nothing, but for PMIx, which gives no number of ranks.
Place PlaceHere() {
  for (const PlaceVariables& names : kLaunchers) {
    const std::optional<int> ranks = NumberOf(names.ranks);
    const std::optional<int> rank = NumberOf(names.rank);
    if (ranks && rank && *rank < *ranks) return {*rank, *ranks};
  }
  return {NumberOf("PMIX_RANK").value_or(-1), 1};
}

}  // namespace

bool IsLaunched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

int LaunchedRank() { return PlaceHere().rank; }
int LaunchedRanks() { return PlaceHere().ranks; }

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

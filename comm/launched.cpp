#include <cstdlib>

#include "comm/mpi_world.h"

namespace moka {

bool IsLaunched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

}  // namespace moka

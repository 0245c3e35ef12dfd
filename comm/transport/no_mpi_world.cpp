// A moka built without MPI.
#include "comm/transport/mpi_world.h"
#include "core/error.h"

namespace moka {

bool HasOpenedWorld() { return false; }

std::unique_ptr<Communicator> OpenWorld(const WorldOptions& /*options*/) {
  throw Error(ErrorKind::kUnavailable, SourcePlace{}, "this moka was built without MPI",
              "install libopenmpi-dev and build with MOKA_MPI=ON");
}

}  // namespace moka

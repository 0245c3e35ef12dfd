// A fault on purpose, for tools/faults/run: a rank of `moka train` whose messages are lost from some moment on.
#pragma once

#include <memory>

#include "comm/transport/communicator.h"

namespace moka {

// Returns the world with a fault, if MOKA_SILENCE=RANK:FILE is in the environment: that rank sends nothing more once
// FILE exists, which it removes, so that a rank that is started again speaks. Else returns the world as it is. Errors:
// kUsage for another form.
std::unique_ptr<Communicator> WithFault(std::unique_ptr<Communicator> world);

}  // namespace moka

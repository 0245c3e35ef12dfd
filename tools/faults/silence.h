// A fault on purpose, for tools/faults/run: a rank of `moka train` whose messages are lost from some moment on.
#pragma once

#include <memory>

#include "comm/transport/communicator.h"

namespace moka {

// With MOKA_SILENCE=RANK:FILE in the environment that rank sends nothing more once FILE exists, which it removes, so
// that a rank that is started again speaks. Without it the world as it is. Errors: kUsage for another form.
std::unique_ptr<Communicator> WithFault(std::unique_ptr<Communicator> world);

}  // namespace moka

// The compute team by the flags --threads and --pin, the environment and the machine.
#pragma once

#include "tools/command_line.h"

namespace moka {

// Sets the number of threads and, with --pin, where they run; for that the process starts itself again, once. To be
// called before anything is read or written. Errors: kUsage naming the flag; when --pin contradicts OMP_PLACES and the
// like.
void SetUpTeam(const Arguments& arguments);

// "2 threads", with the CPUs they are pinned to.
std::string TeamText();

}  // namespace moka

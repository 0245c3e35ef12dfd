// Ranks that train together must run one program.
#pragma once

#include <string>
#include <string_view>

#include "comm/communicator.h"

namespace moka {

// All ranks. Errors: kConfig on all of them, naming the first line in which two ranks differ; `what`: what a line is.
void RequireSame(Communicator& world, const std::string& lines, std::string_view what);

}  // namespace moka

// `moka train`, whose flags `moka zoo train` takes too.
#pragma once

#include "tools/cli/command_line.h"

namespace moka {

Verb TrainVerb();

}  // namespace moka

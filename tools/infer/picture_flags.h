// The flags that say how a picture becomes a net's input.
#pragma once

#include "proto/zoo.pb.h"
#include "tools/cli/command_line.h"

namespace moka {

// --mean, --scale, --resize and --resize-short. Errors: kUsage.
PictureInput PictureFlagsOf(const Arguments& arguments);

}  // namespace moka

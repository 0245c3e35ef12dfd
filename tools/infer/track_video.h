// moka infer --track: a detector looks at each picture of a video, a tracker says which of its boxes are one object.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/command_line.h"
#include "tools/infer/source.h"

namespace moka {

// Each input is a video or a folder of its pictures. Below --out (default "tracks") NAME.txt in MOT's format, NAME.json
// and, with the boxes drawn, NAME.mp4 or NAME.avi (--drawn); --line and --zone count in the JSON; --fps says which
// pictures are looked at. Returns the exit code. Errors: kUsage for other inputs and for flags that do not go together
// or lie outside the pictures, kBadData for pictures of several sizes, those of the net and of the files.
int TrackVideos(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments);

}  // namespace moka

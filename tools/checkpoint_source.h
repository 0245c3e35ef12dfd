// What RUN@WHICH means.
#pragma once

#include <filesystem>
#include <string>

namespace moka {

// The weights' file of a checkpoint: "RUN@best", "RUN@last", "RUN@iter_0005000"; RUN alone is its best checkpoint, or
// the last if no test ranked any. RUN is a folder or the name of one in `runs`. Errors: kNoInput.
std::filesystem::path FindCheckpoint(const std::string& text, const std::filesystem::path& runs);

}  // namespace moka

// What a training's result depends on, as facts that ranks compare before they exchange anything else: the build,
// flags, every field of the solver and the nets, and in place of a file or folder that a field names what is in it,
// since hosts may keep the same data in other places.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/same_on_all.h"
#include "tools/command_line.h"
#include "tools/train_setup.h"

namespace moka {

std::vector<RankFact> RankFactsOf(const Arguments& arguments, const TrainSetup& setup);

// "5000 records, checksum 1a2b..", "file of 120 bytes, checksum ..", "folder". Of large files and databases parts that
// are spread over them are read. A list counts with the files it names. Requires: it exists.
std::string ContentOf(const std::filesystem::path& path);

}  // namespace moka

// The sizes of the pictures in a run's databases: with this file in its config/ a run that was moved away from its data
// still resizes a picture before it cuts it, and gives it the channels that the records had.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/inspect/picture_reader.h"
#include "proto/moka.pb.h"

namespace moka {

// The file's name in config/.
inline constexpr const char* kRecordSizesFile = "record_sizes.json";

// The file for the layers of these nets that read databases of pictures: {"mnist": [28, 28, 1, 0, 0]}, height, width
// and channels, 0 where the records differ, and the import's bounds of the sides (min_dim, max_dim, short_side), if it is known
// what was done to them; empty where there are none.
std::string RecordSizesText(const std::vector<const NetParameter*>& nets);

// Returns what the file of a folder says of a layer; none where there is no such file or no word of it. Runs of earlier
// days kept [height, width]. Errors: kBadData for a file that is none of these.
std::optional<StoredPictures> KeptRecordSize(const std::filesystem::path& folder, const std::string& layer);

}  // namespace moka

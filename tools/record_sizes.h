// The sizes of the pictures that a run's databases held: with them in its config/ a run that was moved away from its
// data still resizes a picture before it cuts it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/image.h"
#include "proto/moka.pb.h"

namespace moka {

// The file's name in config/.
inline constexpr const char* kRecordSizesFile = "record_sizes.json";

// The file for the layers of these nets whose records have one size: {"mnist": [28, 28]}, height before width; empty
// where there are none.
std::string RecordSizesText(const std::vector<const NetParameter*>& nets);

// What the file of a folder says of a layer; none where there is no such file or no word of it. Errors: kBadData for a
// file that is none of these.
std::optional<ImageSize> KeptRecordSize(const std::filesystem::path& folder, const std::string& layer);

}  // namespace moka

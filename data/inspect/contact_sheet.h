// Pictures of a database on one sheet, in rows by class with the class's name and count, to see at a glance what is in
// it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/image/image.h"

namespace moka {

struct SheetOptions {
  int64_t per_class = 10;  // pictures at most, spread over the class's records
  int64_t classes = 100;   // at most; the first ones by label
};
struct ContactSheet {
  Image picture;             // B,G,R
  int64_t pictures = 0;      // drawn
  int64_t classes_left = 0;  // classes not drawn
};
// Small pictures are enlarged by whole factors without smoothing; large ones are averaged down. Records that are no
// pictures of one or three channels of bytes, or cannot be decoded, are drawn as crossed cells.
// Errors: those of opening the database; kBadData when it has no records of classes.
ContactSheet DrawContactSheet(const std::filesystem::path& path, const SheetOptions& options);

}  // namespace moka

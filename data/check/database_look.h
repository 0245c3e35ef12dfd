// A database of records that an import has made, shown to a visitor as an import's source is.
#pragma once

#include <filesystem>

#include "data/import/import_options.h"

namespace moka {

// Whether a folder holds an LMDB.
bool IsDatabase(const std::filesystem::path& folder);
// Records of every kind, each checked against its checksum and schema. Errors: those of RecordDatabase; kBadData for
// one without records.
ImportReport VisitDatabase(const std::filesystem::path& path, const ImportOptions& options);

}  // namespace moka

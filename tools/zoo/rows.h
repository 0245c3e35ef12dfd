// Entries with what was measured of them, and the two READMEs whose tables are made of these.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/zoo/tables.h"

namespace moka {

// Errors: those of ReadEntry and ReadExpected.
ZooRow ReadRow(const std::filesystem::path& models, const std::string& name);
std::vector<ZooRow> ReadRows(const std::filesystem::path& models);

// Writes the table of an entry's README.md as its card and expected.json are now. Errors: as WithTable's; kNoInput
// where there is no README.md.
void UpdateEntryReadme(const ZooRow& row);
// Whether the README.md of all models has the table that the cards give; `updates` writes it where it has not. Errors:
// as there.
bool HasZooTable(const std::filesystem::path& models, bool updates);

}  // namespace moka

// Files are written only where they change, so that a second update leaves nothing to commit.
#include "tools/zoo/rows.h"

#include "core/file.h"
#include "tools/nets/models_folder.h"

namespace moka {

namespace fs = std::filesystem;

ZooRow ReadRow(const fs::path& models, const std::string& name) {
  ZooRow row{ReadEntry(models, name), std::nullopt};
  row.expected = ReadExpected(row.entry.folder);
  return row;
}

std::vector<ZooRow> ReadRows(const fs::path& models) {
  std::vector<ZooRow> rows;
  for (const std::string& name : ModelNames(models)) rows.push_back(ReadRow(models, name));
  return rows;
}

void UpdateEntryReadme(const ZooRow& row) {
  const fs::path file = row.entry.folder / "README.md";
  const std::string text = ReadFile(file);
  const std::string updated = WithTable(text, EntryTable(row), file.string());
  if (updated != text) WriteFileAtomically(file, updated);
}

bool HasZooTable(const fs::path& models, bool updates) {
  const fs::path file = models / "README.md";
  const std::string text = ReadFile(file);
  const std::string wanted = WithTable(text, ZooTable(ReadRows(models)), file.string());
  if (text == wanted) return true;
  if (updates) WriteFileAtomically(file, wanted);
  return updates;
}

}  // namespace moka

// The importer of a database: its Datums stored anew.
#include "core/error.h"
#include "core/text.h"
#include "data/image/resample.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/records/datum_view.h"
#include "data/records/record_database.h"

namespace moka {

ImportReport ImportLmdb(const std::filesystem::path& path, const std::filesystem::path& out,
                        const ImportOptions& options) {
  const RecordDatabase database(path);
  if (database.size() == 0) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no records"));
  if (database.kind() != RecordKind::kDatum) {
    throw Error(ErrorKind::kUsage, {}, StrCat("the records of ", path.string(), " are no Datums, and stay as they are"),
                "import their source again with another --storage or --resize");
  }
  const LmdbReader& reader = database.reader();
  RecordWriter writer(out, options,
                      {.text = StrCat("lmdb ", path.string()),
                       .items = database.size(),
                       .crc32c = database.Checksum(),
                       .bytes = reader.file_bytes()});
  RecordDatabase::Scratch scratch;
  for (const int64_t i : ImportOrder(database.size(), options)) {
    ImportItem item{.name = std::string(NameInKey(reader.key(i)))};
    try {
      const DatumView datum = ParseDatum(reader.value(i));
      item.label = datum.label;
      if (datum.encoded) {
        item.read = [bytes = datum.data] { return std::string(bytes); };
      } else {
        item.draw = [pixels = ImageOf(database.Load(i, scratch).pixels)](Image& image) { image = pixels; };
      }
    } catch (const Error& error) {
      item.read = [error]() -> std::string { throw error; };
    }
    writer.Add(std::move(item));
  }
  return writer.Finish(database.label_names());
}

SourceKind DatabaseSource() {
  return {.kind = "lmdb",
          .parts = "DATABASE",
          .makes = "its Datums anew, in another storage or size",
          .least = 1,
          .most = 1,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportLmdb(parts[0], out, options);
          }};
}

}  // namespace moka

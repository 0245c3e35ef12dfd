// Workers read records in place, each by itself; a picture that is a file in its record stays one.
#include "data/check/database_look.h"

#include "core/error.h"
#include "core/text.h"
#include "data/image/resample.h"
#include "data/import/record_writer.h"
#include "data/records/datum_view.h"
#include "data/records/record_database.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The wire bytes of the Datum in a record of Caffe's.
std::string_view DatumOf(const RecordDatabase& database, int64_t i, AnnotatedRecord& annotated) {
  const std::string_view wire = database.reader().value(i);
  if (database.kind() == RecordKind::kDatum) return wire;
  ParseAnnotated(wire, annotated);
  return annotated.datum;
}

// Whether the record's picture is a file. One that cannot be parsed is none: drawing it says why.
bool HasFile(const RecordDatabase& database, int64_t i) {
  try {
    if (database.kind() == RecordKind::kSample) {
      SampleRecord sample;
      ParseSample(database.reader().unchecked_value(i), database.schema(), sample);
      return !PictureOf(sample).file.empty();
    }
    std::string_view wire = database.reader().unchecked_value(i);
    AnnotatedRecord annotated;
    if (database.kind() == RecordKind::kAnnotated) {
      ParseAnnotated(wire, annotated);
      wire = annotated.datum;
    }
    const DatumView datum = ParseDatum(wire);
    return datum.encoded && !datum.data.empty();
  } catch (const Error&) {
    return false;
  }
}

std::string FileOf(const RecordDatabase& database, int64_t i) {
  if (database.kind() == RecordKind::kSample) {
    SampleRecord sample;
    ParseSample(database.reader().value(i), database.schema(), sample);
    return std::string(PictureOf(sample).file);
  }
  AnnotatedRecord annotated;
  return std::string(ParseDatum(DatumOf(database, i, annotated)).data);
}

// Floats, and bytes of other than one or three channels, are checked and draw nothing.
void Draw(const RecordDatabase& database, int64_t i, Image& image) {
  RecordDatabase::Scratch scratch;
  const PixelView pixels = database.Load(i, scratch).pixels;
  const bool is_picture = pixels.bytes != nullptr && (pixels.channels == 1 || pixels.channels == 3);
  image = is_picture ? ImageOf(pixels) : Image();
}

void DescribeSample(const RecordDatabase& database, int64_t i, const Image& image, SampleRecord& record) {
  ParseSample(database.reader().value(i), database.schema(), record);
  if (!record.mask().empty() && image.width > 0) {
    ImageDecoder decoder;
    Image mask;
    DecodeMask(record, {image.channels, image.height, image.width}, decoder, mask);
  }
  record.clear_picture();
}

ImportItem ItemOf(const RecordDatabase& database, int64_t i) {
  ImportItem item{.name = std::string(NameInKey(database.reader().key(i)))};
  item.place = database.NameOf(i);
  item.kind = database.kind();
  if (HasFile(database, i)) {
    item.file_bytes = database.reader().value_bytes(i);
    item.read = [&database, i] { return FileOf(database, i); };
  } else {
    item.draw = [&database, i](Image& image) { Draw(database, i, image); };
  }
  if (database.kind() == RecordKind::kSample) {
    item.describe_sample = [&database, i](const Image& image, SampleRecord& record, RecordWarnings&) {
      DescribeSample(database, i, image, record);
    };
  } else if (database.kind() == RecordKind::kAnnotated) {
    item.describe = [&database, i](const Image&, AnnotatedDatum& record, RecordWarnings&) {
      const std::string_view wire = database.reader().value(i);
      if (!record.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
        throw Error(ErrorKind::kBadData, "it is no AnnotatedDatum");
      }
      record.clear_datum();
    };
  } else {
    try {
      item.label = ParseDatum(database.reader().unchecked_value(i)).label;
    } catch (const Error&) {
      item.label = 0;  // drawing it says what is wrong
    }
  }
  return item;
}

}  // namespace

bool IsDatabase(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "data.mdb", ignored);
}

ImportReport VisitDatabase(const fs::path& path, const ImportOptions& options) {
  if (!options.classes.empty()) {
    throw Error(ErrorKind::kUsage, {},
                "--classes numbers the classes of a folder, a tar or a zip, and not of a database",
                "its import has numbered them");
  }
  const RecordDatabase database(path);
  if (database.size() == 0) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no records"));
  RecordWriter writer({}, options,
                      {.text = StrCat("database ", path.string()),
                       .items = database.size(),
                       .bytes = database.reader().file_bytes(),
                       .kind = database.kind()});
  for (int64_t i = 0; i < database.size(); ++i) writer.Add(ItemOf(database, i));
  return database.kind() == RecordKind::kSample ? writer.FinishSamples(database.schema())
                                                : writer.Finish(database.label_names());
}

}  // namespace moka

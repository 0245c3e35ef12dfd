// The choice among all importers by a source's text.
#include "data/import.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/text.h"
#include "data/file_tree.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Parts = std::vector<std::string>;

int64_t ImportNumberOf(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 0) {
    throw Error(ErrorKind::kUsage, StrCat(what, ": expected a whole number, found \"", text, "\""));
  }
  return value;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.rfind(from);
  return at == std::string::npos ? std::string() : text.replace(at, from.size(), to);
}

// The part i, or empty where there are fewer.
std::string ImportPartOf(const Parts& parts, size_t i) { return i < parts.size() ? parts[i] : std::string(); }

ImportReport FromBoxes(const Parts& parts, const fs::path& out, const ImportOptions& options) {
  AnnotationOptions annotations;
  annotations.label_map = parts[1];
  annotations.check_label = true;
  annotations.stops_at_bad_file = options.on_bad_record == ImportOptions::OnBadRecord::kStop;
  const std::string root = ImportPartOf(parts, 2).empty() ? std::string() : StrCat(parts[2], "/");
  return ImportAnnotated(parts[0], root, annotations, out, options);
}

ImportReport FromGlyphs(const Parts& parts, const fs::path& out, const ImportOptions& options) {
  const auto seed = parts.size() > 1 ? static_cast<uint64_t>(ImportNumberOf(parts[1], "glyphs:COUNT:SEED")) : 1;
  return ImportGlyphs(ImportNumberOf(parts[0], "glyphs:COUNT"), seed, out, options);
}

constexpr size_t kAny = 1000;

struct SourceKind {
  const char* kind;
  const char* parts;  // as they are written
  const char* makes;
  size_t least;  // parts
  size_t most;
  ImportReport (*import)(const Parts& parts, const fs::path& out, const ImportOptions& options);
  char separator = ',';
  bool has_class_folders = false;
};

const std::vector<SourceKind>& SourceKinds() {
  using Options = ImportOptions;
  static const std::vector<SourceKind> kinds = {
      {"boxes", "LIST,LABELMAP[,ROOT]", "lines \"picture annotation\": AnnotatedDatums", 2, 3, FromBoxes},
      {"cifar10", "FILE[,FILE..]", "CIFAR-10's binary batches", 1, kAny,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportCifar({parts.begin(), parts.end()}, CifarKind::kTen, out, options);
       }},
      {"cifar100", "FILE", "CIFAR-100's", 1, kAny,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportCifar({parts.begin(), parts.end()}, CifarKind::kHundred, out, options);
       }},
      {"coco", "ANNOTATIONS,PICTURES", "COCO's JSON: boxes with masks", 2, 2,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportCoco(parts[0], parts[1], out, options);
       }},
      {"csv", "FILE[,ROOT]", "lines \"path,number..\" with a header: targets", 1, 2,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportCsv(parts[0], ImportPartOf(parts, 1), out, options);
       }},
      {"glyphs", "COUNT[:SEED]", "drawn digits", 1, 2, FromGlyphs, ':'},
      {"idx", "IMAGES,LABELS", "MNIST's format", 2, 2,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportIdx(parts[0], parts[1], out, options);
       }},
      {"instances", "PICTURES,MASKS[,LIST]", "objects by number in PNGs: boxes with masks", 2, 3,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportMasks({parts[0], parts[1], ImportPartOf(parts, 2), {}}, MaskKind::kInstances, out, options);
       }},
      {"leveldb", "FOLDER", "Caffe's records of a LevelDB, as they are", 1, 1,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportLevelDb(parts[0], out, options);
       }},
      {"list", "FILE[,ROOT]", "lines \"path label\"", 1, 2,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportList(parts[0], ImportPartOf(parts, 1), out, options);
       }},
      {"lmdb", "DATABASE", "its Datums anew, in another storage or size", 1, 1,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportLmdb(parts[0], out, options);
       }},
      {"masks", "PICTURES,MASKS[,LIST[,CLASSES]]", "pictures and PNGs of their pixels' classes", 2, 4,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         const MaskFiles files{parts[0], parts[1], ImportPartOf(parts, 2), ImportPartOf(parts, 3)};
         return ImportMasks(files, MaskKind::kClasses, out, options);
       }},
      {"shards", "NAMES", "WebDataset's tars: data-{000..012}.tar, data-*.tar", 1, 1,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportShards(parts[0], out, options);
       }},
      {"tar", "FILE[,SPLIT]", "members SPLIT/CLASS/PICTURE", 1, 2,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportTar(parts[0], ImportPartOf(parts, 1), out, options);
       },
       ',', /*has_class_folders=*/true},
      {"voc", "ROOT,SPLIT[,CLASSES]", "PASCAL VOC's layout: boxes, masks", 2, 3,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportVoc(parts[0], parts[1], ImportPartOf(parts, 2), out, options);
       }},
      {"yolo", "PICTURES,LABELS,CLASSES", "YOLO's text files: boxes", 3, 3,
       [](const Parts& parts, const fs::path& out, const Options& options) {
         return ImportYolo(parts[0], parts[1], parts[2], out, options);
       }},
  };
  return kinds;
}

// Null where there is none.
const SourceKind* KindNamed(std::string_view name) {
  const auto& kinds = SourceKinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const SourceKind& k) { return k.kind == name; });
  return found == kinds.end() ? nullptr : &*found;
}

// Errors: kUsage for options that this kind of source does not take.
void CheckTaken(const SourceKind& kind, const ImportOptions& options) {
  if (options.classes.empty() || kind.has_class_folders) return;
  const bool has_part = std::string_view(kind.parts).find("CLASSES") != std::string_view::npos;
  throw Error(ErrorKind::kUsage, {},
              StrCat("--classes numbers the classes of a folder, a tar or a zip, and not of ", kind.kind),
              has_part ? "its own part CLASSES names them" : "its own numbers, or names, are the classes");
}

// "kind:rest".
ImportReport ImportKind(std::string_view kind, std::string_view rest, const fs::path& out,
                        const ImportOptions& options) {
  const SourceKind* const found = KindNamed(kind);
  if (found != nullptr) {
    CheckTaken(*found, options);
    const Parts parts = Split(rest, found->separator);
    if (parts.size() >= found->least && parts.size() <= found->most) return found->import(parts, out, options);
    throw Error(ErrorKind::kUsage, {}, StrCat("cannot import \"", kind, ":", Printable(rest), "\""),
                StrCat("expected ", found->kind, ":", found->parts));
  }
  std::vector<std::string> forms;
  for (const SourceKind& k : SourceKinds()) forms.push_back(StrCat(k.kind, ":", k.parts));
  throw Error(ErrorKind::kUsage, {}, StrCat("cannot import \"", Printable(kind), ":", Printable(rest), "\""),
              StrCat("expected a folder, a file or one of ", Join(forms, " ")));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ImportSources() {
  std::vector<std::pair<std::string, std::string>> sources = {{"FOLDER", "FOLDER/CLASS/PICTURE"}};
  for (const SourceKind& kind : SourceKinds()) sources.emplace_back(StrCat(kind.kind, ":", kind.parts), kind.makes);
  return sources;
}

ImportReport Import(std::string_view source, const fs::path& out, const ImportOptions& options) {
  const fs::path path(source);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return ImportFolder(path, out, options);
  if (fs::exists(path, ignored)) {
    const std::string labels = Replaced(Replaced(path.filename().string(), "images", "labels"), "idx3", "idx1");
    if (!labels.empty()) {
      CheckTaken(*KindNamed("idx"), options);
      return ImportIdx(path, path.parent_path() / labels, out, options);
    }
    if (IsArchiveName(source)) return ImportTar(path, "", out, options);
    if (source.ends_with(".txt")) {
      CheckTaken(*KindNamed("list"), options);
      return ImportList(path, path.parent_path(), out, options);
    }
    throw Error(ErrorKind::kUsage, {}, StrCat("cannot tell what ", path.string(), " is"),
                "name its kind, as list:FILE or tar:FILE (moka data import --help has all)");
  }
  const size_t colon = source.find(':');
  if (colon == std::string_view::npos) throw Error(ErrorKind::kNoInput, StrCat(path.string(), " does not exist"));
  return ImportKind(source.substr(0, colon), source.substr(colon + 1), out, options);
}

}  // namespace moka

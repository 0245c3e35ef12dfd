// The choice among all importers by a source's text.
#include "data/import/import.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/import/source_kind.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.rfind(from);
  return at == std::string::npos ? std::string() : text.replace(at, from.size(), to);
}

const std::vector<SourceKind>& SourceKinds() {
  static const std::vector<SourceKind> kinds = [] {
    std::vector<SourceKind> rows = SourceKindRows();
    std::ranges::sort(rows, {}, &SourceKind::kind);
    return rows;
  }();
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
  const bool has_part = kind.parts.find("CLASSES") != std::string::npos;
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
    const SourceParts parts(Split(rest, found->separator));
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

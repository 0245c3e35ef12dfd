// One setting for the process, made by the command line before any net is built. Paths are compared after links are
// resolved, as far as they exist.
#include "core/output_place.h"

#include <algorithm>

#include "core/error.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct Confinement {
  bool is_on = false;
  fs::path also;  // canonical
};

Confinement& ConfinementOfProcess() {
  static Confinement confinement;  // set once, by the command line, before any net is built
  return confinement;
}

}  // namespace

void ConfineOutputs(const fs::path& also) {
  Confinement& confinement = ConfinementOfProcess();
  confinement.is_on = true;
  confinement.also.clear();
  if (also.empty()) return;
  std::error_code code;
  confinement.also = fs::canonical(also, code);
  if (!code && fs::is_directory(confinement.also, code)) return;
  throw Error(ErrorKind::kUsage, {}, StrCat("--allow-outputs: ", Printable(also.string()), " is no folder"),
              "make it first");
}

fs::path OutputPath(const fs::path& folder, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorKind::kConfig, {}, StrCat("\"", Printable(name), "\" ", why),
                 "--allow-outputs=DIR lets nets write below DIR");
  };
  const fs::path relative(name);
  if (!relative.has_filename()) throw refuse("names no file");
  const Confinement& confinement = ConfinementOfProcess();
  fs::path path = folder / relative;
  if (!confinement.is_on) return path;
  std::error_code code;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), code);
  if (code) throw refuse(StrCat("cannot be looked up: ", code.message()));
  if (!confinement.also.empty() && IsBelow(real, confinement.also)) return path;
  const std::string place = folder.empty() ? std::string("the working folder") : folder.string();
  if (relative.is_absolute()) throw refuse(StrCat("is an absolute path: files of nets go below ", place));
  if (std::ranges::find(relative, "..") != relative.end()) throw refuse(StrCat("leads out of ", place));
  const fs::path root = fs::weakly_canonical(fs::absolute(folder.empty() ? "." : folder), code);
  if (!IsBelow(real, root)) throw refuse(StrCat("leads out of ", place, " by a link, to ", Printable(real.string())));
  return path;
}

}  // namespace moka

#include "tools/checkpoint_source.h"

#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Empty if the folder has no such checkpoint.
fs::path Find(const fs::path& checkpoints, const std::string& which) {
  std::error_code code;
  fs::path file = checkpoints / which;
  if (fs::is_symlink(file, code)) file = checkpoints / fs::read_symlink(file, code);
  if (file.extension().empty()) file += ".safetensors";
  return fs::exists(file, code) ? file : fs::path();
}

}  // namespace

fs::path FindCheckpoint(const std::string& text, const fs::path& runs) {
  const size_t at = text.rfind('@');
  const std::string run = text.substr(0, at);
  const std::vector<std::string> wanted = at == std::string::npos ? std::vector<std::string>{"best", "last"}
                                                                  : std::vector<std::string>{text.substr(at + 1)};
  std::error_code code;
  for (const fs::path& folder : {fs::path(run), runs / run}) {
    if (run.empty() || !fs::is_directory(folder / "checkpoints", code)) continue;
    for (const std::string& which : wanted) {
      const fs::path file = Find(folder / "checkpoints", which);
      if (!file.empty()) return file;
    }
    throw Error(ErrorKind::kNoInput, StrCat(Printable(run), " has no checkpoint \"", Printable(wanted.front()), "\""));
  }
  throw Error(ErrorKind::kNoInput, StrCat("no run ", Printable(run)));
}

}  // namespace moka

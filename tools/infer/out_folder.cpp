// Names follow the inputs' names; a name that is taken gets a number, so that two inputs never share a file.
#include "tools/infer/out_folder.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {

OutFolder::OutFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (code) {
    throw Error(ErrorKind::kCantCreate,
                StrCat("cannot make the folder ", Printable(folder_.string()), ": ", code.message()));
  }
}

std::string OutFolder::NameFor(const std::filesystem::path& input) {
  std::string name = input.stem().string();
  for (int i = 2; !taken_.insert(name).second; ++i) name = StrCat(input.stem().string(), "-", i);
  return (folder_ / name).string();
}

}  // namespace moka

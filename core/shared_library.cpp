// Looks in the folders of MOKA_CUDA_LIBRARIES, then in the loader's own places, then where CUDA's packages put their
// libraries.
#include "core/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

std::vector<std::string> Folders() {
  std::vector<std::string> folders = {""};  // the loader's own places
  if (const char* named = std::getenv("MOKA_CUDA_LIBRARIES"); named != nullptr) {
    std::vector<std::string> first;
    for (const std::string& folder : Split(named, ':')) {
      if (!folder.empty()) first.push_back(folder + "/");
    }
    folders.insert(folders.begin(), first.begin(), first.end());
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  folders.emplace_back("/usr/local/cuda/targets/x86_64-linux/lib/");
  return folders;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::vector<std::string>& files, std::string_view package) {
  std::string reason;
  for (const std::string& folder : Folders()) {
    for (const std::string& file : files) {
      file_ = folder + file;
      handle_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (const char* error = dlerror(); error != nullptr && reason.empty()) reason = error;
    }
  }
  throw Error(ErrorKind::kUnavailable, {}, StrCat("cannot load ", files.front(), ": ", reason),
              StrCat("install ", package, ", or name the folders of its libraries with MOKA_CUDA_LIBRARIES"));
}

void* SharedLibrary::Find(const char* name) const {
  void* symbol = dlsym(handle_, name);
  if (symbol != nullptr) return symbol;
  throw Error(ErrorKind::kUnavailable, {}, StrCat(file_, " has no function ", name), "install a newer version");
}

}  // namespace moka

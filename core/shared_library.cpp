// Looks in the folders of MOKA_CUDA_LIBRARIES, then in the loader's own places, then in wheels, then where CUDA's
// packages put their libraries.
#include "core/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Adds the folders of a folder's subfolders that end in `below`; a folder that is not there or cannot be read has none.
void AddBelow(const fs::path& folder, const fs::path& below, std::vector<std::string>& found) {
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path candidate = entry->path() / below;
    std::error_code missing;
    if (fs::is_directory(candidate, missing)) folders.push_back(candidate.string() + "/");
  }
  std::ranges::sort(folders);
  found.insert(found.end(), folders.begin(), folders.end());
}

// The file that this code is in: a Python module or the program.
fs::path OwnFile() {
  Dl_info info{};
  std::error_code error;
  const bool is_known = dladdr(reinterpret_cast<const void*>(&OwnFile), &info) != 0 && info.dli_fname != nullptr;
  const fs::path named = is_known ? info.dli_fname : "";
  // A program is known by the word that it was called by.
  const bool is_file = named.has_parent_path() && fs::exists(named, error);
  return fs::canonical(is_file ? named : fs::path("/proc/self/exe"), error);
}

std::vector<std::string> Folders() {
  std::vector<std::string> folders = {""};  // the loader's own places
  if (const char* named = std::getenv("MOKA_CUDA_LIBRARIES"); named != nullptr) {
    std::vector<std::string> first;
    for (const std::string& folder : Split(named, ':')) {
      if (!folder.empty()) first.push_back(folder + "/");
    }
    folders.insert(folders.begin(), first.begin(), first.end());
  }
  const char* const environment = std::getenv("VIRTUAL_ENV");
  const std::vector<std::string> wheels = WheelFolders(OwnFile(), environment == nullptr ? "" : environment);
  folders.insert(folders.end(), wheels.begin(), wheels.end());
  folders.emplace_back("/usr/local/cuda/lib64/");
  folders.emplace_back("/usr/local/cuda/targets/x86_64-linux/lib/");
  return folders;
}

}  // namespace

std::vector<std::string> WheelFolders(const fs::path& file, const fs::path& environment) {
  std::vector<std::string> found;
  for (fs::path above = file.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (above.filename() == "site-packages" || above.filename() == "dist-packages")
      AddBelow(above / "nvidia", "lib", found);
  }
  if (environment.empty()) return found;
  std::vector<std::string> packages;
  AddBelow(environment / "lib", "site-packages", packages);
  for (const std::string& folder : packages) AddBelow(fs::path(folder) / "nvidia", "lib", found);
  return found;
}

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

// NVIDIA's libraries that are loaded when a program for GPUs first asks for them, so that the binary starts without
// them: NVRTC, cuDNN, cuBLASLt.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

class SharedLibrary {
 public:
  // The first of `files` ("libcudnn.so.9") that is found: in the folders $MOKA_CUDA_LIBRARIES, where the loader looks,
  // in NVIDIA's wheels (WheelFolders), in the toolkit's usual folders. It stays loaded. Errors: kUnavailable naming
  // them; `package` is what brings it.
  SharedLibrary(const std::vector<std::string>& files, std::string_view package);

  // A function by its C type. Errors: kUnavailable if the library is too old to have it.
  template <class Function>
  Function Symbol(const char* name) const {
    return reinterpret_cast<Function>(Find(name));
  }
  // The file that was loaded.
  const std::string& file() const { return file_; }

 private:
  void* Find(const char* name) const;

  void* handle_ = nullptr;
  std::string file_;
};

// The folders of libraries that NVIDIA's wheels have put beside the Python package that `file` is part of
// (site-packages/nvidia/*/lib), then those of a virtual environment, if it is not empty; each with "/" at its end, by
// name.
std::vector<std::string> WheelFolders(const std::filesystem::path& file, const std::filesystem::path& environment);

}  // namespace moka

// NVRTC, NVIDIA's compiler as a library: the text of a kernel becomes machine code while a program is prepared. The
// library is loaded when first asked for; what it made is kept on disk for the next time.
#pragma once

#include <filesystem>
#include <string>

namespace moka::cuda {

// The architecture that texts are compiled to.
struct CompileTarget {
  int capability = 80;     // compute capability times ten
  bool wants_ptx = false;  // the portable text instead of machine code
};

// Empty, or why there is no NVRTC here.
std::string MissingNvrtc();

// Compiles CUDA C++ (C++17, no headers, floating-point products may be contracted with sums). Errors: kUnavailable
// without NVRTC, kInternal with its log where the text is wrong.
std::string CompileCuda(const std::string& source, const CompileTarget& target);

// The same by way of a folder: a file a text and target (core/cache.h), named by their hash and NVRTC's version.
// `folder` empty: no files.
std::string CompileCudaCached(const std::string& source, const CompileTarget& target,
                              const std::filesystem::path& folder);

}  // namespace moka::cuda

#include "layers/cuda/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "layers/cuda/shared_library.h"

namespace moka::cuda {
namespace {

struct Nvrtc {
  SharedLibrary library{{"libnvrtc.so.13", "libnvrtc.so.12"}, "NVRTC (package cuda-nvrtc)"};
  decltype(&nvrtcVersion) version = library.Symbol<decltype(&nvrtcVersion)>("nvrtcVersion");
  decltype(&nvrtcGetErrorString) error = library.Symbol<decltype(&nvrtcGetErrorString)>("nvrtcGetErrorString");
  decltype(&nvrtcCreateProgram) create = library.Symbol<decltype(&nvrtcCreateProgram)>("nvrtcCreateProgram");
  decltype(&nvrtcDestroyProgram) destroy = library.Symbol<decltype(&nvrtcDestroyProgram)>("nvrtcDestroyProgram");
  decltype(&nvrtcCompileProgram) compile = library.Symbol<decltype(&nvrtcCompileProgram)>("nvrtcCompileProgram");
  decltype(&nvrtcGetProgramLogSize) log_size =
      library.Symbol<decltype(&nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize");
  decltype(&nvrtcGetProgramLog) log = library.Symbol<decltype(&nvrtcGetProgramLog)>("nvrtcGetProgramLog");
  decltype(&nvrtcGetPTXSize) ptx_size = library.Symbol<decltype(&nvrtcGetPTXSize)>("nvrtcGetPTXSize");
  decltype(&nvrtcGetPTX) ptx = library.Symbol<decltype(&nvrtcGetPTX)>("nvrtcGetPTX");
  decltype(&nvrtcGetCUBINSize) cubin_size = library.Symbol<decltype(&nvrtcGetCUBINSize)>("nvrtcGetCUBINSize");
  decltype(&nvrtcGetCUBIN) cubin = library.Symbol<decltype(&nvrtcGetCUBIN)>("nvrtcGetCUBIN");
};

// Looked for once; a program's kernels share it. Errors: those of SharedLibrary, each time.
const Nvrtc& Library() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

void Check(nvrtcResult result, std::string_view what) {
  if (result == NVRTC_SUCCESS) return;
  throw Error(ErrorKind::kInternal, StrCat("NVRTC: ", what, ": ", Library().error(result)));
}

// Owns a program of NVRTC's.
class CudaText {
 public:
  explicit CudaText(const std::string& source) {
    Check(Library().create(&program_, source.c_str(), "moka.cu", 0, nullptr, nullptr), "taking the source");
  }
  CudaText(const CudaText&) = delete;
  CudaText& operator=(const CudaText&) = delete;
  ~CudaText() { Library().destroy(&program_); }

  void Compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    const nvrtcResult result = Library().compile(program_, static_cast<int>(texts.size()), texts.data());
    if (result == NVRTC_SUCCESS) return;
    throw Error(ErrorKind::kInternal, StrCat("NVRTC: ", Library().error(result), ":\n", Log()));
  }
  std::string Code(bool wants_ptx) const {
    size_t bytes = 0;
    Check(wants_ptx ? Library().ptx_size(program_, &bytes) : Library().cubin_size(program_, &bytes), "asking a size");
    std::string code(bytes, '\0');
    Check(wants_ptx ? Library().ptx(program_, code.data()) : Library().cubin(program_, code.data()), "giving the code");
    return code;
  }

 private:
  std::string Log() const {
    size_t bytes = 0;
    if (Library().log_size(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return {};
    std::string log(bytes, '\0');
    if (Library().log(program_, log.data()) != NVRTC_SUCCESS) return {};
    log.resize(bytes - 1);  // its zero
    return log;
  }

  nvrtcProgram program_ = nullptr;
};

std::vector<std::string> OptionsFor(const CompileTarget& target) {
  return {StrCat("--gpu-architecture=", target.wants_ptx ? "compute_" : "sm_", target.capability), "--std=c++17",
          "-default-device", "--fmad=true"};
}

constexpr size_t kDigest = 64;  // hex digits of SHA-256, first in a file

}  // namespace

std::string MissingNvrtc() {
  try {
    Library();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string CompileCuda(const std::string& source, const CompileTarget& target) {
  CudaText text(source);
  text.Compile(OptionsFor(target));
  return text.Code(target.wants_ptx);
}

std::string CompileCudaCached(const std::string& source, const CompileTarget& target,
                              const std::filesystem::path& folder) {
  if (folder.empty()) return CompileCuda(source, target);
  int major = 0;
  int minor = 0;
  Check(Library().version(&major, &minor), "asking the version");
  std::string key = StrCat(major, ".", minor);
  for (const std::string& option : OptionsFor(target)) key += " " + option;
  const std::filesystem::path file =
      folder / StrCat("nvrtc-", Sha256(key + "\n" + source), target.wants_ptx ? ".ptx" : ".cubin");
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error)) {
    try {
      const std::string kept = ReadFile(file);
      const std::string code = kept.substr(std::min(kept.size(), kDigest));
      if (kept.substr(0, kDigest) == Sha256(code)) return code;
    } catch (const Error&) {
      // Read by nobody else in a useful way either: made again below.
    }
  }
  std::string code = CompileCuda(source, target);
  try {
    CreateFolders(folder);
    WriteFileAtomically(file, Sha256(code) + code);
  } catch (const Error&) {
    // A home that cannot be written costs a compilation the next time, no more.
  }
  return code;
}

std::filesystem::path NvrtcCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "moka";
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "moka";
  return {};
}

}  // namespace moka::cuda

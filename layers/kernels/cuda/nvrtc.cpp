// Compiles a text to machine code for the GPU at hand and keeps it on disk by a hash of text, options and compiler, as
// a program of many kernels takes NVRTC seconds.
#include "layers/kernels/cuda/nvrtc.h"

#include <nvrtc.h>

#include <optional>
#include <vector>

#include "core/cache.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/shared_library.h"
#include "core/text.h"

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
    Error error(ErrorKind::kInternal, StrCat("NVRTC: ", Library().error(result)));
    for (const std::string& line : Split(Log(), '\n')) error.AddNote(line);
    throw error;
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

// -default-device lets the prelude's functions be written without __device__, so that a host compiler takes the same
// text.
std::vector<std::string> OptionsFor(const CompileTarget& target) {
  return {StrCat("--gpu-architecture=", target.wants_ptx ? "compute_" : "sm_", target.capability), "--std=c++17",
          "-default-device", "--fmad=true"};
}

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

// The key holds the compiler's version and all options, so that an update of CUDA compiles anew.
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
  if (std::optional<std::string> kept = ReadKept(file)) return *std::move(kept);
  std::string code = CompileCuda(source, target);
  Keep(file, code);
  return code;
}

}  // namespace moka::cuda

// Read from /proc/cpuinfo and oneDNN, for the heads of reports and the names of files of kernel times.
#include "tools/measure/machine.h"

#include <dnnl.h>

#include <cctype>
#include <fstream>

#include "core/cache.h"
#include "core/text.h"
#include "layers/kernels/cpu/instructions.h"

namespace moka {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return std::string(Trim(line.substr(line.find(':') + 1)));
  }
  return "unknown CPU";
}

std::string IsaName() {
#if defined(__x86_64__)
  if (HasTiles()) return "AMX";
  if (HasBFloat16Pairs()) return "AVX-512 BF16";
  if (__builtin_cpu_supports("avx512vnni")) return "AVX-512 VNNI";
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "SSE";
#else
  return "generic";
#endif
}

std::string OnednnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return StrCat(version->major, ".", version->minor, ".", version->patch);
}

int WeightLimit() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
    case dnnl_cpu_isa_avx:
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx512_mic:
    case dnnl_cpu_isa_avx512_mic_4ops:
    case dnnl_cpu_isa_avx512_core: return 63;
    default: return 127;
  }
}

std::filesystem::path KernelTimesFile() {
  const std::filesystem::path folder = CacheFolder();
  if (folder.empty()) return {};
  std::string name = StrCat(CpuName(), "-", IsaName(), "-onednn-", OnednnVersion());
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  return folder / StrCat("kernels-", name, ".tsv");
}

}  // namespace moka

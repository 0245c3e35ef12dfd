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

// Without the instructions for products of 8 bits, oneDNN adds pairs of them in 16.
int WeightLimit() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto has = [isa](unsigned wanted) { return (isa & wanted) == wanted; };
  const bool adds_in_32 = has(dnnl_cpu_isa_avx2_vnni) || has(dnnl_cpu_isa_avx512_core_vnni);
  return has(dnnl_cpu_isa_sse41) && !adds_in_32 ? 63 : 127;
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

// The processor and oneDNN are both asked, as oneDNN may be held to less by DNNL_MAX_CPU_ISA.
#include "layers/kernels/cpu/instructions.h"

#include <dnnl.h>

namespace moka {
namespace {

[[maybe_unused]] bool IsAllowed(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

}  // namespace

bool HasAvx2() {
#if defined(__x86_64__)
  static const bool has =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && IsAllowed(dnnl_cpu_isa_avx2);
  return has;
#else
  return false;
#endif
}

bool HasAvx512() {
#if defined(__x86_64__)
  static const bool has = HasAvx2() && __builtin_cpu_supports("avx512f") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 && IsAllowed(dnnl_cpu_isa_avx512_core);
  return has;
#else
  return false;
#endif
}

bool HasBFloat16Pairs() { return HasAvx512() && IsAllowed(dnnl_cpu_isa_avx512_core_bf16); }

bool HasInt8Quads() { return HasAvx512() && IsAllowed(dnnl_cpu_isa_avx512_core_vnni); }

// oneDNN asks the system for the tiles' state when it is asked what it has.
bool HasTiles() { return HasBFloat16Pairs() && IsAllowed(dnnl_cpu_isa_avx512_core_amx); }

}  // namespace moka

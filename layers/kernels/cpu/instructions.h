// Tells which registers wider than the build's baseline Moka's own kernels may use here: those that the processor has,
// but no more than oneDNN is held to (its DNNL_MAX_CPU_ISA=AVX2, say), so that one setting serves both. No std in this
// header: files of other instruction sets include it.
#pragma once

namespace moka {

bool HasAvx2();           // with fused multiply-adds
bool HasAvx512();         // F, VL, DQ and BW, beside the above
bool HasBFloat16Pairs();  // AVX512-BF16's dot products of pairs, beside AVX-512
bool HasInt8Quads();      // AVX512-VNNI's dot products of fours, beside AVX-512
bool HasTiles();          // AMX's tiles of bfloat16 and 8-bit integers, which the system lets this process use

}  // namespace moka

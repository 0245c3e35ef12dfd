// Before a function of x86-64: its loops are compiled for instructions beyond the build's baseline, to be called only
// where the processor has them (instructions.h). No contraction: every width gives the same bits.
#pragma once

#if defined(__x86_64__)
#define MOKA_AVX2 __attribute__((target("avx2")))
// AVX-512's instructions on registers of AVX2's width.
#define MOKA_AVX512_256 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#if defined(__clang__)
#define MOKA_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define MOKA_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#endif

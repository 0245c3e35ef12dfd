// Loops compiled with AVX2 and without, chosen when the program is loaded.
#pragma once

// Before a function that is not a template. The sanitizers' runtimes are not up yet when the choice is made, so they
// get the portable code.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define MOKA_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define MOKA_VECTOR_CLONES
#endif

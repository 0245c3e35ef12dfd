// The qualifiers of functions that kernels of CPUs and GPUs share: one macro, since no function can stand for it.
#pragma once

#ifdef __CUDACC__
#define MOKA_HOST_DEVICE __host__ __device__
#else
#define MOKA_HOST_DEVICE
#endif

// Neighbouring elements read and written with one instruction of up to 16 bytes.
#pragma once

#include <cstdint>

#include "layers/kernels/cuda/types.cuh"

namespace moka::cuda {

// Requires, for memory seen as packs: its address and every offset are multiples of the pack.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T values[V];
};

template <int V, class T>
__host__ __device__ Pack<T, V> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}
template <int V, class T>
__host__ __device__ void StorePack(T* to, const Pack<T, V>& pack) {
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// Elements of the widest pack; doubles, which no net is trained in, go one by one.
template <class T>
inline constexpr int kPack = sizeof(T) == 8 ? 1 : 16 / static_cast<int>(sizeof(T));
inline int PackOf(DType dtype) { return BytesOf(dtype) == 8 ? 1 : static_cast<int>(16 / BytesOf(dtype)); }

inline bool IsPackAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace moka::cuda

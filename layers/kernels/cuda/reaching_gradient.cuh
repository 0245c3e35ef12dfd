// The gradient g that reaches the result of a batch normalisation, at an element: the sum of one or more gradients, 0
// where a ReLU let nothing pass. One or two gradients at every position, which a training of half numbers has most,
// have a form of their own for each mask.
#pragma once

#include "layers/kernels/cuda/channel_elements.cuh"
#include "layers/kernels/cuda/normal.cuh"

namespace moka::cuda {

constexpr int kMaxGradients = 8;

// Where the ReLU's mask comes from: kInput computes y's sign anew from x by the formula of the forward pass, which
// saves keeping y; kOutput reads y, as it must where a residual was added before the ReLU.
enum class Mask : uint8_t { kNone, kInput, kOutput };

// g at V neighbours, of any number of gradients, from a mask and strides that are known in a run alone.
template <class T>
struct AnyGradients : OfCoefficients<Wide<T>> {
  using W = Wide<T>;
  template <int V>
  using Context = CoefficientPack<W, V>;
  static constexpr int kAhead = 2;
  static constexpr int kBlocks = 1;
  SampledPlanes sampled;
  Mask mask;
  int gradients;
  const T* x;
  const T* y;  // where mask is kOutput
  const T* dy[kMaxGradients];

  template <int V>
  struct Loaded {
    Pack<T, V> x;
    W g[V];
  };
  // place: of x.
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>& c, int64_t place) const {
    Loaded<V> loaded{LoadPack<V>(x + place), {}};
    auto& g = loaded.g;
    const int64_t at = sampled.PlaceInY(place);
    // A position that strides leave out has no gradient.
    if (at < 0) return loaded;
    for (int i = 0; i < gradients; ++i) {
      const auto pack = LoadPack<V>(dy[i] + at);
      for (int k = 0; k < V; ++k) g[k] += ToWide(pack.values[k]);
    }
    if (mask == Mask::kNone) return loaded;
    const auto result = mask == Mask::kOutput ? LoadPack<V>(y + at) : loaded.x;
    for (int k = 0; k < V; ++k) {
      const W value = ToWide(result.values[k]);
      if (!((mask == Mask::kOutput ? value : c.Normal(k, value)) > 0)) g[k] = 0;
    }
    return loaded;
  }
  template <int V>
  __host__ __device__ W At(const Context<V>&, const Loaded<V>& loaded, int k) const {
    return loaded.g[k];
  }
};

// The same of one or two gradients and a mask that the compiler knows, at every position: packs are loaded as they lie,
// and nothing is decided or computed between two loads, so that many are on their way at a time.
template <class T, Mask kMask, int kCount>
struct FewGradients {
  using W = Wide<T>;
  static constexpr int kAhead = 2;
  // As many as leave registers for what each keeps.
  static constexpr int kBlocks = (kMask == Mask::kInput ? 3 : 4) - (kMask != Mask::kNone && kCount == 2 ? 1 : 0);
  const T* x;
  const T* y;
  const T* dy[kCount];
  Coefficients<W> coefficients;

  // Values of y's formula, where the mask is kInput.
  template <int V>
  using Context = CoefficientPack<W, kMask == Mask::kInput ? V : 1>;
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t c, bool) const {
    if constexpr (kMask == Mask::kInput) return LoadCoefficients<V>(coefficients, c, false);
    return {};
  }
  template <int V>
  struct Loaded {
    Pack<T, V> x;
    Pack<T, V> g[kCount];
    Pack<T, kMask == Mask::kOutput ? V : 1> y;
  };
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>&, int64_t i) const {
    Loaded<V> loaded;
    loaded.x = LoadPack<V>(x + i);
    for (int n = 0; n < kCount; ++n) loaded.g[n] = LoadPack<V>(dy[n] + i);
    if constexpr (kMask == Mask::kOutput) loaded.y = LoadPack<V>(y + i);
    return loaded;
  }
  template <int V>
  __host__ __device__ W At(const Context<V>& c, const Loaded<V>& loaded, int k) const {
    W g = ToWide(loaded.g[0].values[k]);
    if constexpr (kCount == 2) g += ToWide(loaded.g[1].values[k]);
    if constexpr (kMask == Mask::kInput) return c.Normal(k, ToWide(loaded.x.values[k])) > 0 ? g : 0;
    if constexpr (kMask == Mask::kOutput) return ToWide(loaded.y.values[k]) > 0 ? g : 0;
    return g;
  }
};

}  // namespace moka::cuda

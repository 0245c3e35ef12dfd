// A sweep over the gradients of a convolution's input that makes the gradient which a batch norm wants, and its sums:
// what cuDNN's engines are measured against, and what plain loops have behind them.
#include <algorithm>

#include "layers/kernels/cuda/channels.h"
#include "layers/kernels/cuda/norm_gradient.cuh"

namespace moka::cuda {
namespace {

// The sums as they are, of g and of g * x.
struct SumsOut {
  ChannelValues sums;
  ChannelValues products;

  static constexpr bool kIsCentered = false;
  using State = GradientState;
  __host__ __device__ static void Join(State& s, const State& later) { s.Join(later); }
  __host__ __device__ void Finish(int64_t c, const State& s) const {
    sums.Set(c, s.g);
    products.Set(c, s.products);
  }
};

// The forms of the kernels that a training of half numbers has.
template <class T, Mask kMask, int kCount>
void SumFew(Stream& stream, const ChannelMap& map, const GradientTensors& from, const SumsOut& out, void* g,
            GradientState* partial) {
  constexpr int kWidth = kPack<T>;
  using Few = FewGradients<T, kMask, kCount>;
  Few few{static_cast<const T*>(from.x), static_cast<const T*>(from.mask), {}, Coefficients<Wide<T>>(nullptr, 0)};
  few.dy[0] = static_cast<const T*>(from.dx);
  if constexpr (kCount == 2) few.dy[1] = static_cast<const T*>(from.summand);
  SumLastChannels<kWidth>(stream, ChannelPlan(map, kWidth), partial,
                          GradientSums<T, Few, SumsOut>{out, few, static_cast<T*>(g)});
}

// g of any type, from a summand and a mask that are known in a run alone.
template <class T>
struct OneByOne {
  using W = Wide<T>;
  static constexpr int kAhead = 1;
  static constexpr int kBlocks = 1;
  GradientTensors from;

  template <int V>
  struct Context {};
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t, bool) const {
    return {};
  }
  template <int V>
  struct Loaded {
    Pack<T, V> x;
    W g[V];
  };
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>&, int64_t i) const {
    Loaded<V> loaded{LoadPack<V>(static_cast<const T*>(from.x) + i), {}};
    for (int k = 0; k < V; ++k) {
      W g = ToWide(static_cast<const T*>(from.dx)[i + k]);
      if (from.summand != nullptr) g += ToWide(static_cast<const T*>(from.summand)[i + k]);
      const bool passes = from.mask == nullptr || ToWide(static_cast<const T*>(from.mask)[i + k]) > 0;
      loaded.g[k] = passes ? g : W{0};
    }
    return loaded;
  }
  template <int V>
  __host__ __device__ W At(const Context<V>&, const Loaded<V>& loaded, int k) const {
    return loaded.g[k];
  }
};

}  // namespace

int64_t GradientSumsScratch(const TensorType& type) {
  const ChannelMap map = ChannelMapOf(type);
  return std::max(ChannelPlan(map, 1).ScratchBytes<GradientState>(),
                  ChannelPlan(map, PackOf(type.dtype)).ScratchBytes<GradientState>());
}

void TakeGradientSums(Stream& stream, const TensorType& type, const GradientTensors& from, void* g, void* sums,
                      void* products, std::byte* scratch) {
  const ChannelMap map = ChannelMapOf(type);
  const DType dtype = type.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const SumsOut out{{sums, dtype}, {products, dtype}};
  auto* partial = reinterpret_cast<GradientState*>(scratch);
  WithFloat(type.dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 2) {
      const void* const all[] = {from.dx, from.summand, from.mask, from.x, g};
      if (map.is_last && map.Packs(kPack<T>) && std::ranges::all_of(all, IsPackAligned)) {
        const bool is_one = from.summand == nullptr;
        if (from.mask == nullptr && is_one) return SumFew<T, Mask::kNone, 1>(stream, map, from, out, g, partial);
        if (from.mask == nullptr) return SumFew<T, Mask::kNone, 2>(stream, map, from, out, g, partial);
        if (is_one) return SumFew<T, Mask::kOutput, 1>(stream, map, from, out, g, partial);
        return SumFew<T, Mask::kOutput, 2>(stream, map, from, out, g, partial);
      }
    }
    SumChannels<1>(stream, ChannelPlan(map, 1), partial,
                   GradientSums<T, OneByOne<T>, SumsOut>{out, {from}, static_cast<T*>(g)});
  });
}

}  // namespace moka::cuda

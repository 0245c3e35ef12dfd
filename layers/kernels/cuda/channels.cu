// Sums over channels go through channel_sums.cuh, the widest pack that divides the channels first; bias, summand and
// ReLU of an epilogue are one pass over y.
#include "layers/kernels/cuda/channels.h"

#include "layers/kernels/cuda/channel_sums.cuh"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/launch_tiles.cuh"
#include "layers/kernels/cuda/pack.cuh"
#include "layers/kernels/cuda/statistics.cuh"
#include "layers/kernels/cuda/types.cuh"

namespace moka::cuda {
namespace {

// from and to may be one tensor: a thread reads its element before it writes it.
template <class T>
struct Epilogue {
  ChannelMap map;
  const T* from;
  const T* summand;
  const T* bias;
  bool relu;
  T* to;
  __host__ __device__ void operator()(int64_t i) const {
    Wide<T> value = ToWide(from[i]);
    if (summand != nullptr) value += ToWide(summand[i]);
    if (bias != nullptr) value += ToWide(bias[map.Channel(i)]);
    to[i] = Narrow<T>(relu && value < 0 ? 0 : value);
  }
};

struct HalvesTile {
  using Element = uint16_t;
  int64_t rows;
  int64_t columns;
  const uint16_t* from;
  uint16_t* to;
  __host__ __device__ int Enter(int64_t) const { return 0; }
  __host__ __device__ uint16_t Read(int, int64_t row, int64_t column) const { return from[row * columns + column]; }
  __host__ __device__ void Write(int, int64_t row, int64_t column, uint16_t value) const {
    to[column * rows + row] = value;
  }
};

template <class T>
struct ChannelSum {
  const T* from;
  T* to;

  using State = Wide<T>;
  using Part = Wide<T>;
  static constexpr int kAhead = 4;
  static constexpr int kBlocks = sizeof(T) == 2 ? 4 : 1;
  using End = ChannelSum;
  template <int V>
  struct Context {};
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t) const {
    return {};
  }
  template <int V>
  using Loaded = Pack<T, V>;
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>&, int64_t i) const {
    return LoadPack<V>(from + i);
  }
  template <int V>
  __host__ __device__ void Add(const Context<V>&, int64_t, const Loaded<V>& pack, Part (&sums)[V]) const {
    for (int k = 0; k < V; ++k) sums[k] += ToWide(pack.values[k]);
  }
  __host__ __device__ static void Take(State& sum, Part& part) {
    sum += part;
    part = 0;
  }
  __host__ __device__ static void Join(State& sum, const State& later) { sum += later; }
  __host__ __device__ void Finish(int64_t c, const State& sum) const { to[c] = Narrow<T>(sum); }
};

// cuDNN's engines sum in float32; mean and variance are made of the sums in double.
struct OfSums {
  const float* sums;
  const float* squares;
  StatisticsOut out;
  __host__ __device__ void operator()(int64_t c) const {
    out.Set(c, static_cast<double>(sums[c]), static_cast<double>(squares[c]));
  }
};

// Sums by F over a tensor that lies as `type`, in the widest packs that fit it.
template <template <class> class F, class T>
void SumWhere(Stream& stream, const TensorType& type, const void* from, const F<T>& f, std::byte* scratch) {
  const ChannelMap map = ChannelMapOf(type);
  auto* partial = reinterpret_cast<typename F<T>::State*>(scratch);
  // Plain sums go through rows of threads, which need no packs.
  if (map.is_last && map.Packs(kPack<T>) && IsPackAligned(from)) {
    SumChannels<kPack<T>>(stream, ChannelPlan(map, kPack<T>), partial, f);
  } else {
    SumChannels<1>(stream, ChannelPlan(map, 1), partial, f);
  }
}

}  // namespace

void AddEpilogue(Stream& stream, const TensorType& type, const void* from, const void* summand, const void* bias,
                 bool relu, void* to) {
  const ChannelMap map = ChannelMapOf(type);
  WithFloat(type.dtype, [&]<class T>() {
    ForEach(stream, map.Count(),
            Epilogue<T>{map, static_cast<const T*>(from), static_cast<const T*>(summand), static_cast<const T*>(bias),
                        relu, static_cast<T*>(to)});
  });
}

void TransposeHalves(Stream& stream, int64_t rows, int64_t columns, const void* from, void* to) {
  ForEachTile(stream, {1, rows, columns},
              HalvesTile{rows, columns, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to)});
}

int64_t ChannelSumScratch(const TensorType& type) {
  const ChannelMap map = ChannelMapOf(type);
  return WithFloat(type.dtype, [&]<class T>() {
    return std::max(ChannelPlan(map, 1).ScratchBytes<Wide<T>>(), ChannelPlan(map, kPack<T>).ScratchBytes<Wide<T>>());
  });
}

void SumChannels(Stream& stream, const TensorType& type, const void* from, void* to, std::byte* scratch) {
  WithFloat(type.dtype, [&]<class T>() {
    SumWhere(stream, type, from, ChannelSum<T>{static_cast<const T*>(from), static_cast<T*>(to)}, scratch);
  });
}

int64_t StatisticsScratch(const TensorType& type) {
  using State = Statistics<float>::State;
  const ChannelMap map = ChannelMapOf(type);
  return std::max(ChannelPlan(map, 1).ScratchBytes<State>(),
                  ChannelPlan(map, PackOf(type.dtype)).ScratchBytes<State>());
}

void TakeStatistics(Stream& stream, const TensorType& type, const void* from, void* mean, void* variance,
                    std::byte* scratch) {
  const DType dtype = type.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const StatisticsOut out{ChannelMapOf(type).PerChannel(), {mean, dtype}, {variance, dtype}};
  WithFloat(type.dtype, [&]<class T>() {
    SumWhere(stream, type, from, Statistics<T>{static_cast<const T*>(from), out}, scratch);
  });
}

void StatisticsOfSums(Stream& stream, const TensorType& type, const float* sums, const float* squares, float* mean,
                      float* variance) {
  const ChannelMap map = ChannelMapOf(type);
  ForEach(stream, map.channels,
          OfSums{sums, squares, {map.PerChannel(), {mean, DType::kFloat32}, {variance, DType::kFloat32}}});
}

}  // namespace moka::cuda

#include "layers/cuda/channels.h"

#include "layers/cuda/launch.cuh"
#include "layers/cuda/types.cuh"

namespace moka::cuda {
namespace {

// A tensor as [outer, channels, inner]: plain; inner is 1 with channels last.
struct ChannelMap {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
  int64_t Count() const { return outer * channels * inner; }
};

ChannelMap MapOf(const TensorType& type) {
  const Shape& shape = type.shape;
  const int64_t channels = shape[1];
  if (type.layout.is_plain()) return {shape[0], channels, shape.Count(2, shape.rank())};
  const bool is_last = type.layout.block_count == 0 && type.layout.order[static_cast<size_t>(shape.rank() - 1)] == 1;
  Require(is_last, "a tensor of images is plain or has its channels last");
  return {channels == 0 ? 0 : shape.Count() / channels, channels, 1};
}

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
    if (bias != nullptr) value += ToWide(bias[i / map.inner % map.channels]);
    to[i] = Narrow<T>(relu && value < 0 ? 0 : value);
  }
};

template <class T>
struct ChannelSum {
  ChannelMap map;
  const T* from;
  T* to;

  using State = Wide<T>;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ static void Join(State& sum, const State& other) { sum += other; }
};

// Channels last: a column is a channel.
template <class T>
struct LastSum : ChannelSum<T> {
  __host__ __device__ void Add(int64_t row, int64_t channel, Wide<T>& sum) const {
    sum += ToWide(this->from[row * this->map.channels + channel]);
  }
  __host__ __device__ void Finish(int64_t channel, const Wide<T>& sum) const { this->to[channel] = Narrow<T>(sum); }
};

// Plain: a row is a channel, through all images.
template <class T>
struct PlaneSum : ChannelSum<T> {
  __host__ __device__ void Add(int64_t channel, int64_t i, Wide<T>& sum) const {
    const int64_t image = i / this->map.inner;
    sum += ToWide(this->from[(image * this->map.channels + channel) * this->map.inner + i % this->map.inner]);
  }
  __host__ __device__ void Write(int64_t, int64_t, const Wide<T>&) const {}
  __host__ __device__ void Finish(int64_t channel, const Wide<T>& sum) const { this->to[channel] = Narrow<T>(sum); }
};

}  // namespace

void AddEpilogue(Stream& stream, const TensorType& type, const void* from, const void* summand, const void* bias,
                 bool relu, void* to) {
  const ChannelMap map = MapOf(type);
  WithFloat(type.dtype, [&]<class T>() {
    ForEach(stream, map.Count(),
            Epilogue<T>{map, static_cast<const T*>(from), static_cast<const T*>(summand), static_cast<const T*>(bias),
                        relu, static_cast<T*>(to)});
  });
}

int64_t ChannelSumScratch(const TensorType& type) {
  const ChannelMap map = MapOf(type);
  if (map.inner != 1) return 0;
  return ColumnPlan(map.outer, map.channels).ScratchBytes<LastSum<double>>();
}

void SumChannels(Stream& stream, const TensorType& type, const void* from, void* to, std::byte* scratch) {
  const ChannelMap map = MapOf(type);
  WithFloat(type.dtype, [&]<class T>() {
    const ChannelSum<T> sum{map, static_cast<const T*>(from), static_cast<T*>(to)};
    if (map.inner == 1) {
      ForEachColumn(stream, ColumnPlan(map.outer, map.channels), reinterpret_cast<Wide<T>*>(scratch), LastSum<T>{sum});
    } else {
      ForEachRow(stream, map.channels, map.outer * map.inner, PlaneSum<T>{sum});
    }
  });
}

}  // namespace moka::cuda

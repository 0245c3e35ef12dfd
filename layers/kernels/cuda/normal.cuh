// The part that batch normalisation and its gradient share: a channel's coefficients, the one formula of y (so that a
// mask found again is the same), parameters of any floating type, and the positions that strides leave.
#pragma once

#include <cmath>

#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/channel_sums.cuh"
#include "layers/kernels/cuda/pack.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"

namespace moka::cuda {

// A value a channel, of any floating type: read and written once a channel, so the choice costs nothing.
struct ChannelValues {
  void* values = nullptr;  // null: not given
  DType dtype = DType::kFloat32;

  __host__ __device__ bool is_given() const { return values != nullptr; }
  __host__ __device__ double Get(int64_t c) const {
    switch (dtype) {
      case DType::kFloat64: return static_cast<const double*>(values)[c];
      case DType::kFloat16: return static_cast<double>(ToWide(static_cast<const Half*>(values)[c]));
      case DType::kBFloat16: return static_cast<double>(ToWide(static_cast<const BFloat16*>(values)[c]));
      default: return static_cast<double>(static_cast<const float*>(values)[c]);
    }
  }
  __host__ __device__ void Set(int64_t c, double value) const {
    switch (dtype) {
      case DType::kFloat64: static_cast<double*>(values)[c] = value; return;
      case DType::kFloat16: static_cast<Half*>(values)[c] = Narrow<Half>(static_cast<float>(value)); return;
      case DType::kBFloat16: static_cast<BFloat16*>(values)[c] = Narrow<BFloat16>(static_cast<float>(value)); return;
      default: static_cast<float*>(values)[c] = static_cast<float>(value);
    }
  }
};

// In scratch, W a channel each: y = (x - mean) * factor + shift, factor = scale / sqrt(variance + eps). From the
// variance as it is given on, so that the gradient finds the bits of the forward pass.
template <class W>
struct Coefficients {
  W* mean;
  W* factor;
  W* shift;

  Coefficients(W* scratch, int64_t channels) : mean(scratch), factor(mean + channels), shift(factor + channels) {}
  __host__ __device__ void Set(int64_t c, double mean_value, double variance, double eps, const ChannelValues& scale,
                               const ChannelValues& shift_values) const {
    mean[c] = static_cast<W>(mean_value);
    factor[c] = static_cast<W>((scale.is_given() ? scale.Get(c) : 1.0) / sqrt(variance + eps));
    shift[c] = shift_values.is_given() ? static_cast<W>(shift_values.Get(c)) : W{0};
  }
};

template <class W, int V>
struct CoefficientPack {
  Pack<W, V> mean;
  Pack<W, V> factor;
  Pack<W, V> shift;
  __host__ __device__ W Normal(int k, W x) const { return (x - mean.values[k]) * factor.values[k] + shift.values[k]; }
};

// Loads the coefficients of V channels from c on; if is_one, those of channel c alone, V times.
template <int V, class W>
__host__ __device__ CoefficientPack<W, V> LoadCoefficients(const Coefficients<W>& from, int64_t c, bool is_one) {
  if (!is_one) return {LoadPack<V>(from.mean + c), LoadPack<V>(from.factor + c), LoadPack<V>(from.shift + c)};
  CoefficientPack<W, V> pack;
  for (int k = 0; k < V; ++k) {
    pack.mean.values[k] = from.mean[c];
    pack.factor.values[k] = from.factor[c];
    pack.shift.values[k] = from.shift[c];
  }
  return pack;
}

// For functors whose threads keep the coefficients of V channels.
template <class W>
struct OfCoefficients {
  Coefficients<W> coefficients;

  template <int V>
  __host__ __device__ CoefficientPack<W, V> Enter(int64_t c, bool is_one) const {
    return LoadCoefficients<V>(coefficients, c, is_one);
  }
};

// Sets the coefficients from statistics that are given.
template <class W>
struct SetCoefficients {
  Coefficients<W> coefficients;
  ChannelValues mean;
  ChannelValues variance;
  ChannelValues scale;
  ChannelValues shift;
  double eps;
  __host__ __device__ void operator()(int64_t c) const {
    coefficients.Set(c, mean.Get(c), variance.Get(c), eps, scale, shift);
  }
};

// x [N,C,H,W] and what strides leave of it.
struct SampledPlanes {
  bool is_sampled = false;
  Planes x;
  Planes y;
  int64_t stride[2] = {1, 1};

  // Where x's element of place i in memory lies in y; -1 if it is left out.
  __host__ __device__ int64_t PlaceInY(int64_t i) const {
    if (!is_sampled) return i;
    const Place p = x.At(i);
    if (p.at[1] % stride[0] != 0 || p.at[2] % stride[1] != 0) return -1;
    const int64_t at[3] = {0, p.at[1] / stride[0], p.at[2] / stride[1]};
    return y.Offset(p.n, p.c, y.InPlane(at));
  }
  __host__ __device__ int64_t PlaceInX(int64_t i) const {
    if (!is_sampled) return i;
    const Place p = y.At(i);
    const int64_t at[3] = {0, p.at[1] * stride[0], p.at[2] * stride[1]};
    return x.Offset(p.n, p.c, x.InPlane(at));
  }
};

inline SampledPlanes SampledPlanesOf(const Attributes& attributes, const TensorType& x, const TensorType& y) {
  const Ints& stride = attributes.Get<Ints>("stride");
  if (stride.empty()) return {};
  return {true, PlanesOf(x), PlanesOf(y), {stride[0], stride[1]}};
}

// "" or why not: images plain or channels last, x's type wherever x's rank is but in the values a channel.
inline std::string RefuseUnlessNormal(const KernelQuery& query) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      const bool is_image = type.shape.rank() == query.inputs[0].shape.rank();
      if (is_image && type.dtype != query.inputs[0].dtype) return "its images must be of one type";
    }
  }
  if (query.inputs[0].shape.Count() == 0) return "the images are empty";
  return RefuseUnlessImages(query);
}

}  // namespace moka::cuda

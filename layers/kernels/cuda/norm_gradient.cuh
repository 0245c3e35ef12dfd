// The gradient of batch normalisation: what is done with g at an element and at a channel's end (formulas in
// layers/ops/normalisation/batch_norm_backward.cpp), for kernels that sum it and for those that make dx of it.
#pragma once

#include <cmath>
#include <type_traits>

#include "layers/kernels/cuda/reaching_gradient.cuh"

namespace moka::cuda {

// Half images have sums of g * x and take dx as factor * g + slope * x + offset, which keeps the fewest values of a
// channel; others g * (x - mean) and factor * (g - a - (x - mean) * b), where nothing large cancels.
template <class T>
inline constexpr bool kIsFolded = sizeof(T) == 2;

// A channel's sums, of g and of g * (x - mean) or g * x.
struct GradientState {
  double g;
  double products;
  __host__ __device__ void Join(const GradientState& later) {
    g += later.g;
    products += later.products;
  }
};

// The end of a channel's sums. They are joined in double: a channel may have millions of elements, whose contributions
// nearly cancel.
template <class T>
struct GradientEnd {
  using W = Wide<T>;
  ChannelMap map;
  Coefficients<W> coefficients;
  ChannelValues variance;
  ChannelValues dscale;
  ChannelValues dshift;
  double eps;
  W* first;  // a or slope, and b or offset, a channel
  W* second;

  using State = GradientState;
  static constexpr bool kIsCentered = !kIsFolded<T>;
  __host__ __device__ static void Join(State& s, const State& later) { s.Join(later); }
  __host__ __device__ void Finish(int64_t c, const State& s) const {
    const double v = variance.Get(c) + eps;
    const auto count = static_cast<double>(map.PerChannel());
    const auto factor = static_cast<double>(coefficients.factor[c]);
    const auto mean = static_cast<double>(coefficients.mean[c]);
    const double products = kIsFolded<T> ? s.products - mean * s.g : s.products;
    if (dscale.is_given()) dscale.Set(c, products / sqrt(v));
    if (dshift.is_given()) dshift.Set(c, s.g);
    const double a = s.g / count;
    const double b = products / v / count;
    first[c] = static_cast<W>(kIsFolded<T> ? -factor * b : a);
    second[c] = static_cast<W>(kIsFolded<T> ? factor * (mean * b - a) : b);
  }
};

// For SumChannels. E: what the sums become; it says whether x is taken from the mean, which its coefficients have then.
template <class T, class G, class E = GradientEnd<T>>
struct GradientSums : E {
  using W = Wide<T>;
  using End = E;
  using State = GradientState;
  using P = std::conditional_t<sizeof(T) == 2, float, double>;
  struct Part {
    P g;
    P products;
  };
  static constexpr int kAhead = G::kAhead;
  static constexpr int kBlocks = G::kBlocks;
  G gradient;
  T* residual;  // g, if it is a result

  template <int V>
  struct Context {
    typename G::template Context<V> mask;
    Pack<W, E::kIsCentered ? V : 1> mean;
  };
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t c) const {
    Context<V> context{gradient.template Enter<V>(c, false), {}};
    if constexpr (E::kIsCentered) context.mean = LoadPack<V>(this->coefficients.mean + c);
    return context;
  }
  template <int V>
  using Loaded = typename G::template Loaded<V>;
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>& c, int64_t i) const {
    return gradient.template Load<V>(c.mask, i);
  }
  template <int V>
  __host__ __device__ void Add(const Context<V>& c, int64_t i, const Loaded<V>& loaded, Part (&parts)[V]) const {
    Pack<T, V> rounded;
    for (int k = 0; k < V; ++k) {
      const W g = gradient.template At<V>(c.mask, loaded, k);
      W x = ToWide(loaded.x.values[k]);
      if constexpr (E::kIsCentered) x -= c.mean.values[k];
      rounded.values[k] = Narrow<T>(g);
      parts[k].g += static_cast<P>(g);
      parts[k].products += static_cast<P>(g) * static_cast<P>(x);
    }
    // The result is rounded to its type; the sums have taken g before that.
    if (residual != nullptr) StorePack<V>(residual + i, rounded);
  }
  __host__ __device__ static void Take(State& s, Part& part) {
    s.g += static_cast<double>(part.g);
    s.products += static_cast<double>(part.products);
    part = {};
  }
};

// The second sweep. A pack of x and of g is loaded once; the other values are the channel's.
template <class T, class G>
struct InputGradient {
  using W = Wide<T>;
  G gradient;
  Coefficients<W> coefficients;
  const W* first;
  const W* second;
  T* dx;

  template <int V>
  struct Context {
    typename G::template Context<V> mask;
    Pack<W, V> factor;
    Pack<W, V> first;
    Pack<W, V> second;
    Pack<W, kIsFolded<T> ? 1 : V> mean;
  };
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t channel, bool is_one) const {
    Context<V> context{gradient.template Enter<V>(channel, is_one), {}, {}, {}, {}};
    for (int k = 0; k < V; ++k) {
      const int64_t c = is_one ? channel : channel + k;
      context.factor.values[k] = coefficients.factor[c];
      context.first.values[k] = first[c];
      context.second.values[k] = second[c];
      if constexpr (!kIsFolded<T>) context.mean.values[k] = coefficients.mean[c];
    }
    return context;
  }
  template <int V>
  using Loaded = typename G::template Loaded<V>;
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>& context, int64_t i) const {
    return gradient.template Load<V>(context.mask, i);
  }
  template <int V>
  __host__ __device__ void Store(const Context<V>& context, int64_t i, const Loaded<V>& loaded) const {
    Pack<T, V> pack;
    for (int k = 0; k < V; ++k) {
      const W g = gradient.template At<V>(context.mask, loaded, k);
      const W x = ToWide(loaded.x.values[k]);
      const W factor = context.factor.values[k];
      const W one = context.first.values[k];
      const W two = context.second.values[k];
      W value;
      if constexpr (kIsFolded<T>) {
        value = factor * g + (one * x + two);
      } else {
        value = factor * (g - one - (x - context.mean.values[k]) * two);
      }
      pack.values[k] = Narrow<T>(value);
    }
    StorePack<V>(dx + i, pack);
  }
};

}  // namespace moka::cuda

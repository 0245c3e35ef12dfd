// The gradient of batch normalisation (formulas in layers/ops/normalisation/batch_norm_backward.cpp). One sweep sums g
// and g * (x - mean) a channel, g being the masked sum of the gradients, and writes g if it is a result; another makes
// dx = factor * (g - a - (x - mean) * b).
#include <cmath>

#include "graph/kernel.h"
#include "layers/kernels/cuda/channel_elements.cuh"
#include "layers/kernels/cuda/normal.cuh"

namespace moka {
namespace {

constexpr int kMaxGradients = 8;

// Where the ReLU's mask comes from: kInput computes y's sign anew from x by the formula of the forward pass, which
// saves keeping y; kOutput reads y, as it must where a residual was added before the ReLU.
enum class Mask : uint8_t { kNone, kInput, kOutput };

template <class T, int V>
struct XAndGradient {
  cuda::Pack<T, V> x;
  cuda::Wide<T> g[V];
};

// g at V neighbours.
template <class T>
struct MaskedGradient {
  using W = cuda::Wide<T>;
  cuda::SampledPlanes sampled;
  Mask mask;
  int gradients;
  const T* x;
  const T* y;  // where mask is kOutput
  const T* dy[kMaxGradients];

  // place: of x.
  template <int V>
  __host__ __device__ XAndGradient<T, V> Load(const cuda::CoefficientPack<W, V>& c, int64_t place) const {
    XAndGradient<T, V> loaded{cuda::LoadPack<V>(x + place), {}};
    auto& g = loaded.g;
    const int64_t at = sampled.PlaceInY(place);
    // A position that strides leave out has no gradient.
    if (at < 0) return loaded;
    for (int i = 0; i < gradients; ++i) {
      const auto pack = cuda::LoadPack<V>(dy[i] + at);
      for (int k = 0; k < V; ++k) g[k] += cuda::ToWide(pack.values[k]);
    }
    if (mask == Mask::kNone) return loaded;
    const auto result = mask == Mask::kOutput ? cuda::LoadPack<V>(y + at) : loaded.x;
    for (int k = 0; k < V; ++k) {
      const W value = cuda::ToWide(result.values[k]);
      if (!((mask == Mask::kOutput ? value : c.Normal(k, value)) > 0)) g[k] = 0;
    }
    return loaded;
  }
};

// Sums are in double: a channel may have millions of elements, whose contributions nearly cancel.
template <class T>
struct GradientSums {
  using W = cuda::Wide<T>;
  MaskedGradient<T> gradient;
  cuda::ChannelMap map;
  cuda::Coefficients<W> coefficients;
  cuda::ChannelValues variance;
  cuda::ChannelValues dscale;
  cuda::ChannelValues dshift;
  double eps;
  W* a;  // what dx takes of them, a channel
  W* b;
  T* residual;  // g, if it is a result

  struct State {
    double g;
    double products;  // g * (x - mean)
  };
  template <int V>
  using Context = cuda::CoefficientPack<W, V>;
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t c) const {
    return cuda::LoadCoefficients<V>(coefficients, c, false);
  }
  template <int V>
  using Loaded = XAndGradient<T, V>;
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>& c, int64_t i) const {
    return gradient.template Load<V>(c, i);
  }
  template <int V>
  __host__ __device__ void Add(const Context<V>& c, int64_t i, const Loaded<V>& loaded, State (&states)[V]) const {
    cuda::Pack<T, V> rounded;
    for (int k = 0; k < V; ++k) {
      const W g = loaded.g[k];
      rounded.values[k] = cuda::Narrow<T>(g);
      states[k].g += static_cast<double>(g);
      states[k].products +=
          static_cast<double>(g) * static_cast<double>(cuda::ToWide(loaded.x.values[k]) - c.mean.values[k]);
    }
    // The result is rounded to its type; the sums have taken g before that.
    if (residual != nullptr) cuda::StorePack<V>(residual + i, rounded);
  }
  __host__ __device__ static void Join(State& s, const State& later) {
    s.g += later.g;
    s.products += later.products;
  }
  __host__ __device__ void Finish(int64_t c, const State& s) const {
    const double v = variance.Get(c) + eps;
    const auto count = static_cast<double>(map.PerChannel());
    if (dscale.is_given()) dscale.Set(c, s.products / sqrt(v));
    if (dshift.is_given()) dshift.Set(c, s.g);
    a[c] = static_cast<W>(s.g / count);
    b[c] = static_cast<W>(s.products / v / count);
  }
};

// The second sweep. A pack of x and of g is loaded once; a, b and the factor are the channel's.
template <class T>
struct InputGradient {
  using W = cuda::Wide<T>;
  MaskedGradient<T> gradient;
  cuda::Coefficients<W> coefficients;
  const W* a;
  const W* b;
  const T* residual;  // g if the sums have left it, which may have been written over the gradients
  T* dx;

  template <int V>
  struct Context {
    cuda::CoefficientPack<W, V> c;
    cuda::Pack<W, V> a;
    cuda::Pack<W, V> b;
  };
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t channel, bool is_one) const {
    Context<V> context{cuda::LoadCoefficients<V>(coefficients, channel, is_one), {}, {}};
    for (int k = 0; k < V; ++k) {
      context.a.values[k] = a[is_one ? channel : channel + k];
      context.b.values[k] = b[is_one ? channel : channel + k];
    }
    return context;
  }
  template <int V>
  using Loaded = XAndGradient<T, V>;
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>& context, int64_t i) const {
    if (residual == nullptr) return gradient.template Load<V>(context.c, i);
    Loaded<V> loaded;
    loaded.x = cuda::LoadPack<V>(gradient.x + i);
    const auto pack = cuda::LoadPack<V>(residual + i);
    for (int k = 0; k < V; ++k) loaded.g[k] = cuda::ToWide(pack.values[k]);
    return loaded;
  }
  template <int V>
  __host__ __device__ void Store(const Context<V>& context, int64_t i, const Loaded<V>& loaded) const {
    cuda::Pack<T, V> pack;
    for (int k = 0; k < V; ++k) {
      const W centered = cuda::ToWide(loaded.x.values[k]) - context.c.mean.values[k];
      pack.values[k] = cuda::Narrow<T>(context.c.factor.values[k] *
                                       (loaded.g[k] - context.a.values[k] - centered * context.b.values[k]));
    }
    cuda::StorePack<V>(dx + i, pack);
  }
};

// Inputs: x, mean, variance, the gradients, then scale, shift and y where they are given.
class BatchNormBackwardKernel final : public BoundKernel {
 public:
  explicit BatchNormBackwardKernel(const KernelQuery& query)
      : map_(cuda::ChannelMapOf(query.inputs[0])),
        sampled_(cuda::SampledPlanesOf(query.node.attributes, query.inputs[0], query.inputs[3])),
        dtype_(query.inputs[0].dtype),
        eps_(query.node.attributes.Float("eps")),
        gradients_(static_cast<size_t>(query.node.attributes.Int("gradients"))),
        is_affine_(query.node.attributes.Bool("affine")),
        has_residual_(query.node.attributes.Bool("residual")) {
    const std::string& mask = query.node.attributes.String("mask");
    mask_ = mask == "input" ? Mask::kInput : mask == "output" ? Mask::kOutput : Mask::kNone;
    for (const TensorType& type : query.inputs) input_types_.push_back(type.dtype);
    for (const TensorType& type : query.outputs) output_types_.push_back(type.dtype);
  }
  int64_t scratch_bytes() const override {
    const int64_t narrow = cuda::ChannelPlan(map_, 1).ScratchBytes<GradientSums<float>::State>();
    const int64_t wide = cuda::ChannelPlan(map_, Pack()).ScratchBytes<GradientSums<float>::State>();
    return ValueBytes() + std::max(narrow, wide);
  }

  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (Packs()) {
        RunPacked<T, cuda::kPack<T>>();
      } else {
        RunPacked<T, 1>();
      }
    });
  }

 private:
  int Pack() const { return cuda::PackOf(dtype_); }
  // Three coefficients, a and b.
  int64_t ValueBytes() const { return (5 * map_.channels * int64_t{sizeof(double)} + 15) / 16 * 16; }
  size_t Y() const { return input_count() - 1; }
  bool Packs() const {
    bool is_aligned = cuda::IsPackAligned(in<void>(0)) && cuda::IsPackAligned(out<void>(0)) &&
                      cuda::IsPackAligned(out<void>(output_count() - 1)) && cuda::IsPackAligned(in<void>(Y()));
    for (size_t i = 0; i < gradients_; ++i) is_aligned = is_aligned && cuda::IsPackAligned(in<void>(3 + i));
    return is_aligned && map_.Packs(Pack()) && (map_.is_last || !sampled_.is_sampled);
  }
  cuda::ChannelValues Given(size_t i) const { return {const_cast<void*>(in<void>(i)), input_types_[i]}; }
  cuda::ChannelValues Wanted(size_t o) const { return {out<void>(o), output_types_[o]}; }

  template <class T>
  MaskedGradient<T> Gradient() const {
    MaskedGradient<T> gradient{sampled_, mask_, static_cast<int>(gradients_), in<T>(0), in<T>(Y()), {}};
    for (size_t i = 0; i < gradients_; ++i) gradient.dy[i] = in<T>(3 + i);
    return gradient;
  }

  template <class T, int V>
  void RunPacked() {
    using W = cuda::Wide<T>;
    const cuda::Coefficients<W> coefficients(scratch<W>(), map_.channels);
    // Scratch holds mean, factor, shift, a and b, a value a channel each, and behind them the partial sums.
    W* const a = coefficients.shift + map_.channels;
    W* const b = a + map_.channels;
    const cuda::ChannelValues none;
    const cuda::ChannelValues scale = is_affine_ ? Given(3 + gradients_) : none;
    const cuda::ChannelValues shift = is_affine_ && mask_ == Mask::kInput ? Given(4 + gradients_) : none;
    T* const residual = has_residual_ ? out<T>(output_count() - 1) : nullptr;
    cuda::ForEach(stream(), map_.channels,
                  cuda::SetCoefficients<W>{coefficients, Given(1), Given(2), scale, shift, eps_});
    cuda::SumChannels<V>(stream(), cuda::ChannelPlan(map_, V), scratch<typename GradientSums<T>::State>(ValueBytes()),
                         GradientSums<T>{Gradient<T>(), map_, coefficients, Given(2), is_affine_ ? Wanted(1) : none,
                                         is_affine_ ? Wanted(2) : none, eps_, a, b, residual});
    cuda::ForEachOfChannels<V>(stream(), map_,
                               InputGradient<T>{Gradient<T>(), coefficients, a, b, residual, out<T>(0)});
  }

  cuda::ChannelMap map_;
  cuda::SampledPlanes sampled_;
  DType dtype_;
  double eps_;
  size_t gradients_;
  bool is_affine_;
  bool has_residual_;
  Mask mask_ = Mask::kNone;
  std::vector<DType> input_types_;
  std::vector<DType> output_types_;
};

// The functor has a pointer for each gradient, so their number is limited.
std::string Refuse(const KernelQuery& query) {
  if (query.node.attributes.Int("gradients") > kMaxGradients) {
    return StrCat("it adds ", kMaxGradients, " gradients at most, not ", query.node.attributes.Int("gradients"));
  }
  return cuda::RefuseUnlessNormal(query);
}

}  // namespace

KernelDef CudaBatchNormBackward() {
  return {.name = "moka",
          .op = "batch_norm_backward",
          .device = DeviceKind::kCuda,
          .refuse = Refuse,
          .propose = cuda::ProposeImages,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<BatchNormBackwardKernel>(query);
          }};
}

}  // namespace moka

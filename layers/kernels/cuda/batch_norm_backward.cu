// The gradient of batch normalisation (formulas in layers/ops/normalisation/batch_norm_backward.cpp). One sweep sums g
// and g * (x - mean) a channel, g being the masked sum of the gradients, and writes g if it is a result; another makes
// dx = factor * (g - a - (x - mean) * b). What a training of half numbers has most, one or two gradients at every
// position and channels last, has kernels of its own for each mask.
#include <cmath>
#include <type_traits>

#include "graph/kernel.h"
#include "layers/kernels/cuda/channel_elements.cuh"
#include "layers/kernels/cuda/normal.cuh"

namespace moka {
namespace {

constexpr int kMaxGradients = 8;

// Where the ReLU's mask comes from: kInput computes y's sign anew from x by the formula of the forward pass, which
// saves keeping y; kOutput reads y, as it must where a residual was added before the ReLU.
enum class Mask : uint8_t { kNone, kInput, kOutput };

// g at V neighbours, of any number of gradients, from a mask and strides that are known in a run alone.
template <class T>
struct AnyGradients : cuda::OfCoefficients<cuda::Wide<T>> {
  using W = cuda::Wide<T>;
  template <int V>
  using Context = cuda::CoefficientPack<W, V>;
  static constexpr int kAhead = 2;
  static constexpr int kBlocks = 1;
  cuda::SampledPlanes sampled;
  Mask mask;
  int gradients;
  const T* x;
  const T* y;  // where mask is kOutput
  const T* dy[kMaxGradients];

  template <int V>
  struct Loaded {
    cuda::Pack<T, V> x;
    W g[V];
  };
  // place: of x.
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>& c, int64_t place) const {
    Loaded<V> loaded{cuda::LoadPack<V>(x + place), {}};
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
  template <int V>
  __host__ __device__ W At(const Context<V>&, const Loaded<V>& loaded, int k) const {
    return loaded.g[k];
  }
};

// The same of one or two gradients and a mask that the compiler knows, at every position: packs are loaded as they lie,
// and nothing is decided or computed between two loads, so that many are on their way at a time.
template <class T, Mask kMask, int kCount>
struct FewGradients {
  using W = cuda::Wide<T>;
  static constexpr int kAhead = 2;
  // As many as leave registers for what each keeps.
  static constexpr int kBlocks = (kMask == Mask::kInput ? 3 : 4) - (kMask != Mask::kNone && kCount == 2 ? 1 : 0);
  const T* x;
  const T* y;
  const T* dy[kCount];
  cuda::Coefficients<W> coefficients;

  // Values of y's formula, where the mask is kInput.
  template <int V>
  using Context = cuda::CoefficientPack<W, kMask == Mask::kInput ? V : 1>;
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t c, bool) const {
    if constexpr (kMask == Mask::kInput) return cuda::LoadCoefficients<V>(coefficients, c, false);
    return {};
  }
  template <int V>
  struct Loaded {
    cuda::Pack<T, V> x;
    cuda::Pack<T, V> g[kCount];
    cuda::Pack<T, kMask == Mask::kOutput ? V : 1> y;
  };
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>&, int64_t i) const {
    Loaded<V> loaded;
    loaded.x = cuda::LoadPack<V>(x + i);
    for (int n = 0; n < kCount; ++n) loaded.g[n] = cuda::LoadPack<V>(dy[n] + i);
    if constexpr (kMask == Mask::kOutput) loaded.y = cuda::LoadPack<V>(y + i);
    return loaded;
  }
  template <int V>
  __host__ __device__ W At(const Context<V>& c, const Loaded<V>& loaded, int k) const {
    W g = cuda::ToWide(loaded.g[0].values[k]);
    if constexpr (kCount == 2) g += cuda::ToWide(loaded.g[1].values[k]);
    if constexpr (kMask == Mask::kInput) return c.Normal(k, cuda::ToWide(loaded.x.values[k])) > 0 ? g : 0;
    if constexpr (kMask == Mask::kOutput) return cuda::ToWide(loaded.y.values[k]) > 0 ? g : 0;
    return g;
  }
};

// Half images have sums of g * x and take dx as factor * g + slope * x + offset, which keeps the fewest values of a
// channel; others g * (x - mean) and factor * (g - a - (x - mean) * b), where nothing large cancels.
template <class T>
inline constexpr bool kIsFolded = sizeof(T) == 2;

// The end of a channel's sums. They are joined in double: a channel may have millions of elements, whose contributions
// nearly cancel.
template <class T>
struct GradientEnd {
  using W = cuda::Wide<T>;
  cuda::ChannelMap map;
  cuda::Coefficients<W> coefficients;
  cuda::ChannelValues variance;
  cuda::ChannelValues dscale;
  cuda::ChannelValues dshift;
  double eps;
  W* first;  // a or slope, and b or offset, a channel
  W* second;

  struct State {
    double g;
    double products;  // g * (x - mean), or g * x
  };
  __host__ __device__ static void Join(State& s, const State& later) {
    s.g += later.g;
    s.products += later.products;
  }
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

template <class T, class G>
struct GradientSums : GradientEnd<T> {
  using W = cuda::Wide<T>;
  using End = GradientEnd<T>;
  using State = typename End::State;
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
    cuda::Pack<W, kIsFolded<T> ? 1 : V> mean;
  };
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t c) const {
    Context<V> context{gradient.template Enter<V>(c, false), {}};
    if constexpr (!kIsFolded<T>) context.mean = cuda::LoadPack<V>(this->coefficients.mean + c);
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
    cuda::Pack<T, V> rounded;
    for (int k = 0; k < V; ++k) {
      const W g = gradient.template At<V>(c.mask, loaded, k);
      W x = cuda::ToWide(loaded.x.values[k]);
      if constexpr (!kIsFolded<T>) x -= c.mean.values[k];
      rounded.values[k] = cuda::Narrow<T>(g);
      parts[k].g += static_cast<P>(g);
      parts[k].products += static_cast<P>(g) * static_cast<P>(x);
    }
    // The result is rounded to its type; the sums have taken g before that.
    if (residual != nullptr) cuda::StorePack<V>(residual + i, rounded);
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
  using W = cuda::Wide<T>;
  G gradient;
  cuda::Coefficients<W> coefficients;
  const W* first;
  const W* second;
  T* dx;

  template <int V>
  struct Context {
    typename G::template Context<V> mask;
    cuda::Pack<W, V> factor;
    cuda::Pack<W, V> first;
    cuda::Pack<W, V> second;
    cuda::Pack<W, kIsFolded<T> ? 1 : V> mean;
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
    cuda::Pack<T, V> pack;
    for (int k = 0; k < V; ++k) {
      const W g = gradient.template At<V>(context.mask, loaded, k);
      const W x = cuda::ToWide(loaded.x.values[k]);
      const W factor = context.factor.values[k];
      const W one = context.first.values[k];
      const W two = context.second.values[k];
      W value;
      if constexpr (kIsFolded<T>) {
        value = factor * g + (one * x + two);
      } else {
        value = factor * (g - one - (x - context.mean.values[k]) * two);
      }
      pack.values[k] = cuda::Narrow<T>(value);
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
    const int64_t narrow = cuda::ChannelPlan(map_, 1).ScratchBytes<GradientEnd<float>::State>();
    const int64_t wide = cuda::ChannelPlan(map_, Pack()).ScratchBytes<GradientEnd<float>::State>();
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
  // Three coefficients and two values of dx.
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

  template <class T, int V>
  void RunPacked() {
    if constexpr (sizeof(T) == 2 && V > 1) {
      if (gradients_ <= 2 && !sampled_.is_sampled && cuda::StreamsLast(map_, V)) {
        if (gradients_ == 1) return WithMask([&]<Mask kMask>() { RunFew<T, V, kMask, 1>(); });
        return WithMask([&]<Mask kMask>() { RunFew<T, V, kMask, 2>(); });
      }
    }
    using Any = AnyGradients<T>;
    const Sweeps<T> sweeps = Begin<T>();
    const auto& coefficients = sweeps.end.coefficients;
    Any gradient{{coefficients}, sampled_, mask_, static_cast<int>(gradients_), in<T>(0), in<T>(Y()), {}};
    for (size_t i = 0; i < gradients_; ++i) gradient.dy[i] = in<T>(3 + i);
    cuda::SumChannels<V>(stream(), cuda::ChannelPlan(map_, V), sweeps.partial,
                         GradientSums<T, Any>{sweeps.end, gradient, sweeps.residual});
    // The masked sum that is left may have been written over the gradients.
    if (sweeps.residual != nullptr)
      gradient = {{coefficients}, {}, Mask::kNone, 1, in<T>(0), nullptr, {sweeps.residual}};
    cuda::ForEachOfChannels<V>(stream(), map_, sweeps.template Second<Any>(gradient, out<T>(0)));
  }

  template <class F>
  void WithMask(F&& f) {
    if (mask_ == Mask::kInput) return f.template operator()<Mask::kInput>();
    if (mask_ == Mask::kOutput) return f.template operator()<Mask::kOutput>();
    return f.template operator()<Mask::kNone>();
  }

  template <class T, int V, Mask kMask, int kCount>
  void RunFew() {
    using Few = FewGradients<T, kMask, kCount>;
    using Left = FewGradients<T, Mask::kNone, 1>;
    const Sweeps<T> sweeps = Begin<T>();
    const auto& coefficients = sweeps.end.coefficients;
    Few gradient{in<T>(0), in<T>(Y()), {}, coefficients};
    for (int i = 0; i < kCount; ++i) gradient.dy[i] = in<T>(3 + static_cast<size_t>(i));
    cuda::SumLastChannels<V>(stream(), cuda::ChannelPlan(map_, V), sweeps.partial,
                             GradientSums<T, Few>{sweeps.end, gradient, sweeps.residual});
    if (sweeps.residual == nullptr) {
      cuda::ForEachOfLastChannels<V>(stream(), map_, sweeps.template Second<Few>(gradient, out<T>(0)));
    } else {
      const Left left{in<T>(0), nullptr, {sweeps.residual}, coefficients};
      cuda::ForEachOfLastChannels<V>(stream(), map_, sweeps.template Second<Left>(left, out<T>(0)));
    }
  }

  // The two sweeps share this, whatever the gradients are.
  template <class T>
  struct Sweeps {
    GradientEnd<T> end;
    typename GradientEnd<T>::State* partial;
    T* residual;

    template <class G>
    InputGradient<T, G> Second(const G& gradient, T* dx) const {
      return {gradient, end.coefficients, end.first, end.second, dx};
    }
  };

  // Sets the coefficients. Scratch holds mean, factor, shift, and two values of dx, each a channel, and behind them the
  // partial sums.
  template <class T>
  Sweeps<T> Begin() {
    using W = cuda::Wide<T>;
    const cuda::Coefficients<W> coefficients(scratch<W>(), map_.channels);
    W* const first = coefficients.shift + map_.channels;
    const cuda::ChannelValues none;
    const cuda::ChannelValues scale = is_affine_ ? Given(3 + gradients_) : none;
    const cuda::ChannelValues shift = is_affine_ && mask_ == Mask::kInput ? Given(4 + gradients_) : none;
    cuda::ForEach(stream(), map_.channels,
                  cuda::SetCoefficients<W>{coefficients, Given(1), Given(2), scale, shift, eps_});
    return {GradientEnd<T>{map_, coefficients, Given(2), is_affine_ ? Wanted(1) : none, is_affine_ ? Wanted(2) : none,
                           eps_, first, first + map_.channels},
            scratch<typename GradientEnd<T>::State>(ValueBytes()),
            has_residual_ ? out<T>(output_count() - 1) : nullptr};
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

// Average, max and stochastic pooling, and unpooling, which is the gradient of an average, over plain or channels-last
// images: a thread makes one element, or V neighbouring channels that lie last. What spreads gathers: each element of x
// sums, in order, what the windows that hold it, or took it, give. Ties and NaN are taken as the reference takes them:
// the first element of a window is the best until a greater one comes.
#include <algorithm>
#include <initializer_list>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/pack.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

// The geometry of pooling x to y.
struct Pool {
  cuda::Planes x;
  cuda::Planes y;
  cuda::Windows windows;
};

// f.template operator()<V>() for the widest packs of T that both images and all addresses allow.
// Channels last, V neighbouring channels have one window: the index arithmetic is done once for V elements and each
// load is 16 bytes.
template <class T, class F>
void WithPacks(const Pool& pool, std::initializer_list<const void*> addresses, F&& f) {
  constexpr int kV = cuda::kPack<T>;
  const bool is_packed =
      cuda::HasPacks(pool.x, kV) && cuda::HasPacks(pool.y, kV) && std::ranges::all_of(addresses, cuda::IsPackAligned);
  if (is_packed) return f.template operator()<kV>();
  return f.template operator()<1>();
}

// The types of x and y, whichever is the input.
Pool PoolOf(const KernelQuery& query, const TensorType& x, const TensorType& y) {
  return {cuda::PlanesOf(x), cuda::PlanesOf(y),
          cuda::WindowsOf(PoolGeometry(query.node.op->name, query.node.attributes))};
}

// Averages ------------------------------------------------------------------------------------------------------------

// The divisor of average pooling counts what lies in [-begin, size + end) of each axis; sums have none.
struct Counts {
  bool divides = true;
  int64_t begin[3] = {};
  int64_t end[3] = {};
  __host__ __device__ int64_t Divisor(const Pool& p, const int64_t (&o)[3]) const {
    int64_t divisor = 1;
    if (!divides) return divisor;
    for (int a = 0; a < 3; ++a) {
      const int64_t start = p.windows.axis[a].Start(o[a]);
      const int64_t stop = start + p.windows.axis[a].kernel;
      const int64_t low = start > -begin[a] ? start : -begin[a];
      const int64_t high = stop < p.x.size[a] + end[a] ? stop : p.x.size[a] + end[a];
      divisor *= high - low;
    }
    return divisor;
  }
};

// Sums are wide and rounded once, after the division.
template <class T, int V>
struct AverageEach {
  Pool p;
  Counts counts;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    // All V channels lie in one window, whose elements are read once each.
    const cuda::Place o = p.y.At(i * V);
    cuda::Wide<T> sums[V] = {};
    p.windows.Visit(p.x, o.at, [&](int64_t at, int64_t) {
      const auto pack = cuda::LoadPack<V>(x + p.x.Offset(o.n, o.c, at));
      for (int k = 0; k < V; ++k) sums[k] += cuda::ToWide(pack.values[k]);
    });
    const auto divisor = static_cast<cuda::Wide<T>>(counts.Divisor(p, o.at));
    cuda::Pack<T, V> means;
    for (int k = 0; k < V; ++k) means.values[k] = cuda::Narrow<T>(sums[k] / divisor);
    cuda::StorePack<V>(y + i * V, means);
  }
};

// A gather instead of a scatter: no atomics, so that the bits do not depend on the order of threads.
template <class T, int V>
struct AverageBackwardEach {
  Pool p;
  Counts counts;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place place = p.x.At(i * V);
    cuda::Wide<T> sums[V] = {};
    p.windows.VisitHolding(p.y, place.at, [&](const auto& o, int64_t at, int64_t) {
      const auto pack = cuda::LoadPack<V>(dy + p.y.Offset(place.n, place.c, at));
      const auto divisor = static_cast<cuda::Wide<T>>(counts.Divisor(p, o));
      for (int k = 0; k < V; ++k) sums[k] += cuda::ToWide(pack.values[k]) / divisor;
    });
    cuda::Pack<T, V> rounded;
    for (int k = 0; k < V; ++k) rounded.values[k] = cuda::Narrow<T>(sums[k]);
    cuda::StorePack<V>(dx + i * V, rounded);
  }
};

// Average pooling and its gradient, which unpooling without a mask is, over windows of its own.
class AverageKernel final : public BoundKernel {
 public:
  AverageKernel(const Pool& pool, const Counts& counts, DType dtype, bool spreads)
      : pool_(pool), counts_(counts), dtype_(dtype), spreads_(spreads) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      WithPacks<T>(pool_, {in<T>(0), out<T>(0)}, [&]<int V>() {
        if (spreads_) {
          cuda::ForEach(stream(), pool_.x.Count() / V, AverageBackwardEach<T, V>{pool_, counts_, in<T>(0), out<T>(0)});
        } else {
          cuda::ForEach(stream(), pool_.y.Count() / V, AverageEach<T, V>{pool_, counts_, in<T>(0), out<T>(0)});
        }
      });
    });
  }

 private:
  Pool pool_;
  Counts counts_;
  DType dtype_;
  bool spreads_;  // each window's value over its elements
};

template <bool kBackward>
std::unique_ptr<Kernel> MakeAverage(const KernelQuery& query) {
  const TensorType& input = query.inputs[0];
  const TensorType& output = query.outputs[0];
  Counts counts;
  const Ints& begin = query.node.attributes.Get<Ints>("count_begin");
  const Ints& end = query.node.attributes.Get<Ints>("count_end");
  for (size_t i = 0; i < begin.size(); ++i) {
    counts.begin[3 - begin.size() + i] = begin[i];
    counts.end[3 - begin.size() + i] = end[i];
  }
  const Pool pool = kBackward ? PoolOf(query, output, input) : PoolOf(query, input, output);
  return std::make_unique<AverageKernel>(pool, counts, input.dtype, kBackward);
}

// Unpooling spreads each value of the small plane over a window of the large one, which is what the gradient of an
// average does.
template <bool kBackward>
std::unique_ptr<Kernel> MakeUnpool(const KernelQuery& query) {
  const TensorType& small = kBackward ? query.outputs[0] : query.inputs[0];
  const TensorType& large = kBackward ? query.inputs[0] : query.outputs[0];
  Pool pool{cuda::PlanesOf(large), cuda::PlanesOf(small), {}};
  for (size_t i = 0; i < 2; ++i) {
    pool.windows.axis[i + 1] = {query.node.attributes.Get<Ints>("kernel")[i],
                                query.node.attributes.Get<Ints>("stride")[i], 0};
  }
  const Counts counts{.divides = query.node.attributes.Bool("mean")};
  return std::make_unique<AverageKernel>(pool, counts, query.inputs[0].dtype, !kBackward);
}

KernelDef MeanRow(const char* op, decltype(KernelDef::make) make) {
  return {.name = "moka",
          .op = op,
          .device = DeviceKind::kCuda,
          .refuse = cuda::RefuseUnlessImages,
          .propose = cuda::ProposeImages,
          .make = make};
}

// Maxima and choices --------------------------------------------------------------------------------------------------

// Positions inside windows, of 8 or 32 bits as the window is small or large; neither where nobody keeps them.
struct Positions {
  uint8_t* narrow = nullptr;
  int32_t* wide = nullptr;
  __host__ __device__ int64_t Get(int64_t i) const { return narrow != nullptr ? int64_t{narrow[i]} : int64_t{wide[i]}; }
  __host__ __device__ void Set(int64_t i, int64_t position) const {
    if (narrow != nullptr) narrow[i] = static_cast<uint8_t>(position);
    if (wide != nullptr) wide[i] = static_cast<int32_t>(position);
  }
  template <int V>
  __host__ __device__ cuda::Pack<int32_t, V> GetPack(int64_t i) const {
    if (narrow == nullptr) return cuda::LoadPack<V>(wide + i);
    const auto pack = cuda::LoadPack<V>(narrow + i);
    cuda::Pack<int32_t, V> positions;
    for (int k = 0; k < V; ++k) positions.values[k] = pack.values[k];
    return positions;
  }
  template <int V>
  __host__ __device__ void SetPack(int64_t i, const cuda::Pack<int32_t, V>& positions) const {
    if (wide != nullptr) cuda::StorePack<V>(wide + i, positions);
    if (narrow == nullptr) return;
    cuda::Pack<uint8_t, V> pack;
    for (int k = 0; k < V; ++k) pack.values[k] = static_cast<uint8_t>(positions.values[k]);
    cuda::StorePack<V>(narrow + i, pack);
  }
  const void* memory() const { return narrow != nullptr ? static_cast<const void*>(narrow) : wide; }
};

// The first element is taken as it is and later ones by `>`, so of equals the first wins and a NaN that comes first
// stays, as on the CPU. best_at = -1 says that nothing is taken yet.
template <class T, int V>
struct MaxEach {
  Pool p;
  const T* x;
  T* y;
  Positions argmax;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place o = p.y.At(i * V);
    cuda::Pack<T, V> best;
    cuda::Pack<int32_t, V> best_at;
    for (int k = 0; k < V; ++k) {
      best.values[k] = T{};
      best_at.values[k] = -1;
    }
    p.windows.Visit(p.x, o.at, [&](int64_t at, int64_t position) {
      const auto pack = cuda::LoadPack<V>(x + p.x.Offset(o.n, o.c, at));
      for (int k = 0; k < V; ++k) {
        const bool is_better = cuda::ToWide(pack.values[k]) > cuda::ToWide(best.values[k]);
        if (best_at.values[k] >= 0 && !is_better) continue;
        best.values[k] = pack.values[k];
        best_at.values[k] = static_cast<int32_t>(position);
      }
    });
    cuda::StorePack<V>(y + i * V, best);
    argmax.template SetPack<V>(i * V, best_at);
  }
};

// A window's gradient goes to the element at its saved position; an element looks at the few windows that hold it.
template <class T, int V>
struct MaxBackwardEach {
  Pool p;
  const T* dy;
  Positions argmax;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place place = p.x.At(i * V);
    cuda::Wide<T> sums[V] = {};
    p.windows.VisitHolding(p.y, place.at, [&](const auto&, int64_t at, int64_t position) {
      const int64_t o = p.y.Offset(place.n, place.c, at);
      const auto positions = argmax.template GetPack<V>(o);
      const auto pack = cuda::LoadPack<V>(dy + o);
      for (int k = 0; k < V; ++k) {
        // This window has chosen this element.
        if (positions.values[k] == position) sums[k] += cuda::ToWide(pack.values[k]);
      }
    });
    cuda::Pack<T, V> rounded;
    for (int k = 0; k < V; ++k) rounded.values[k] = cuda::Narrow<T>(sums[k]);
    cuda::StorePack<V>(dx + i * V, rounded);
  }
};

// Caffe's mask is the place in the plane; positions are places in the window, a quarter of the bytes.
struct MaskEach {
  Pool p;
  Positions argmax;
  float* mask;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place o = p.y.At(i);
    const int64_t wanted = argmax.Get(i);
    p.windows.Visit(p.x, o.at, [&](int64_t at, int64_t position) {
      if (position == wanted) mask[i] = static_cast<float>(at);
    });
  }
};

// The first element whose running sum reaches u times the total (Zeiler and Fergus, arXiv 1301.3557, section 3). The
// window is visited twice: for the total, then for the choice.
template <class T>
struct StochasticEach {
  Pool p;
  const T* x;
  const cuda::Wide<T>* u;
  T* y;
  Positions argmax;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place o = p.y.At(i);
    cuda::Wide<T> total = 0;
    p.windows.Visit(p.x, o.at, [&](int64_t at, int64_t) { total += cuda::ToWide(x[p.x.Offset(o.n, o.c, at)]); });
    const cuda::Wide<T> mark = u[i] * total;
    cuda::Wide<T> sum = 0;
    bool is_chosen = false;
    p.windows.Visit(p.x, o.at, [&](int64_t at, int64_t position) {
      // Visit goes through the whole window: what comes after the choice is passed over.
      if (is_chosen) return;
      const T value = x[p.x.Offset(o.n, o.c, at)];
      sum += cuda::ToWide(value);
      is_chosen = sum >= mark;
      y[i] = value;
      argmax.Set(i, position);
    });
  }
};

// Max pooling's kernels: those that write positions, and those that read them.
class PositionsKernel : public BoundKernel {
 protected:
  PositionsKernel(const Pool& pool, DType positions) : pool_(pool), positions_(positions) {}
  const Pool& pool() const { return pool_; }
  Positions At(void* memory) const {
    if (positions_ == DType::kUInt8) return {.narrow = static_cast<uint8_t*>(memory)};
    return {.wide = static_cast<int32_t*>(memory)};
  }
  Positions Read(size_t input) const { return At(const_cast<void*>(in<void>(input))); }

 private:
  Pool pool_;
  DType positions_;
};

// Max pooling takes 8-bit integers too, for quantised nets: rounding commutes with the maximum.
class PoolMaxKernel final : public PositionsKernel {
 public:
  explicit PoolMaxKernel(const KernelQuery& query)
      : PositionsKernel(PoolOf(query, query.inputs[0], query.outputs[0]),
                        query.outputs.size() > 1 ? query.outputs[1].dtype : DType::kUInt8),
        dtype_(query.inputs[0].dtype) {}
  void Run() override {
    cuda::WithType(dtype_, [&]<class T>() {
      // Wider integers are refused; kernels for them are not compiled.
      if constexpr (sizeof(T) == 1 || !std::is_integral_v<T>) {
        const Positions argmax = output_count() > 1 ? At(out<void>(1)) : Positions{};
        WithPacks<T>(pool(), {in<T>(0), out<T>(0), argmax.memory()}, [&]<int V>() {
          cuda::ForEach(stream(), pool().y.Count() / V, MaxEach<T, V>{pool(), in<T>(0), out<T>(0), argmax});
        });
      }
    });
  }

 private:
  DType dtype_;
};

class PoolMaxBackwardKernel final : public PositionsKernel {
 public:
  explicit PoolMaxBackwardKernel(const KernelQuery& query)
      : PositionsKernel(PoolOf(query, query.outputs[0], query.inputs[0]), query.inputs[1].dtype),
        dtype_(query.inputs[0].dtype) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      WithPacks<T>(pool(), {in<T>(0), out<T>(0), Read(1).memory()}, [&]<int V>() {
        cuda::ForEach(stream(), pool().x.Count() / V, MaxBackwardEach<T, V>{pool(), in<T>(0), Read(1), out<T>(0)});
      });
    });
  }

 private:
  DType dtype_;
};

// The pooled x, whose shape alone is known, as if it lay like the positions.
Pool MaskedPool(const KernelQuery& query) {
  const Shape x(std::span<const int64_t>(query.node.attributes.Get<Ints>("input_shape")));
  return PoolOf(query, {DType::kFloat32, x, query.inputs[0].layout}, query.inputs[0]);
}

class PoolMaxMaskKernel final : public PositionsKernel {
 public:
  explicit PoolMaxMaskKernel(const KernelQuery& query) : PositionsKernel(MaskedPool(query), query.inputs[0].dtype) {}
  void Run() override { cuda::ForEach(stream(), pool().y.Count(), MaskEach{pool(), Read(0), out<float>(0)}); }
};

// The random numbers u are an input, made by the graph: the kernel itself is a function.
class PoolStochasticKernel final : public PositionsKernel {
 public:
  explicit PoolStochasticKernel(const KernelQuery& query)
      : PositionsKernel(PoolOf(query, query.inputs[0], query.outputs[0]), query.outputs[1].dtype),
        dtype_(query.inputs[0].dtype) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), pool().y.Count(),
                    StochasticEach<T>{pool(), in<T>(0), in<cuda::Wide<T>>(1), out<T>(0), At(out<void>(1))});
    });
  }

 private:
  DType dtype_;
};

std::string RefuseMax(const KernelQuery& query) {
  const DType dtype = query.inputs[0].dtype;
  if (!IsFloat(dtype) && dtype != DType::kUInt8 && dtype != DType::kInt8) {
    return StrCat("it works on real numbers and 8-bit integers, not ", NameOf(dtype));
  }
  return cuda::RefuseUnlessImages(query);
}

std::string RefuseStochastic(const KernelQuery& query) {
  const DType wide = query.inputs[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  if (query.inputs[1].dtype != wide) return "its numbers that choose are float32, those of float64 images float64";
  return cuda::RefuseUnlessImages(query);
}

}  // namespace

KernelDef CudaPoolAverage() { return MeanRow("pool_average", MakeAverage<false>); }
KernelDef CudaPoolAverageBackward() { return MeanRow("pool_average_backward", MakeAverage<true>); }
KernelDef CudaUnpool() { return MeanRow("unpool", MakeUnpool<false>); }
KernelDef CudaUnpoolBackward() { return MeanRow("unpool_backward", MakeUnpool<true>); }

KernelDef CudaPoolMax() { return cuda::OwnRow<PoolMaxKernel>("pool_max", RefuseMax, cuda::ProposeImages); }
KernelDef CudaPoolMaxForward() {
  return cuda::OwnRow<PoolMaxKernel>("pool_max_forward", RefuseMax, cuda::ProposeImages);
}
KernelDef CudaPoolMaxBackward() {
  return cuda::OwnRow<PoolMaxBackwardKernel>("pool_max_backward", cuda::RefuseUnlessImages, cuda::ProposeImages);
}
KernelDef CudaPoolMaxMask() {
  return cuda::OwnRow<PoolMaxMaskKernel>("pool_max_mask", cuda::RefuseUnlessImages, cuda::ProposeImages);
}
KernelDef CudaPoolStochastic() {
  return cuda::OwnRow<PoolStochasticKernel>("pool_stochastic", RefuseStochastic, cuda::ProposeImages);
}

}  // namespace moka

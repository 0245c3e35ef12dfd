// Average pooling and unpooling, which is its gradient, over plain or channels-last images: a thread makes one element.
// What spreads gathers: each element of x sums, in order, what the windows that hold it give.
#include "layers/cuda/pool.cuh"

namespace moka {
namespace {

// The divisor of average pooling counts what lies in [-begin, size + end) of each axis; sums have none.
struct Counts {
  bool divides = true;
  int64_t begin[3] = {};
  int64_t end[3] = {};
  __host__ __device__ int64_t Divisor(const cuda::Pool& p, const int64_t (&o)[3]) const {
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

template <class T>
struct AverageEach {
  cuda::Pool p;
  Counts counts;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place o = p.y.At(i);
    cuda::Wide<T> sum = 0;
    p.windows.Visit(p.x, o.at, [&](int64_t at, int64_t) { sum += cuda::ToWide(x[p.x.Offset(o.n, o.c, at)]); });
    y[i] = cuda::Narrow<T>(sum / static_cast<cuda::Wide<T>>(counts.Divisor(p, o.at)));
  }
};

template <class T>
struct AverageBackwardEach {
  cuda::Pool p;
  Counts counts;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place place = p.x.At(i);
    cuda::Wide<T> sum = 0;
    p.windows.VisitHolding(p.y, place.at, [&](const auto& o, int64_t at, int64_t) {
      sum += cuda::ToWide(dy[p.y.Offset(place.n, place.c, at)]) / static_cast<cuda::Wide<T>>(counts.Divisor(p, o));
    });
    dx[i] = cuda::Narrow<T>(sum);
  }
};

// Average pooling and its gradient, which unpooling without a mask is, over windows of its own.
class AverageKernel final : public BoundKernel {
 public:
  AverageKernel(const cuda::Pool& pool, const Counts& counts, DType dtype, bool spreads)
      : pool_(pool), counts_(counts), dtype_(dtype), spreads_(spreads) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (spreads_) {
        cuda::ForEach(stream(), pool_.x.Count(), AverageBackwardEach<T>{pool_, counts_, in<T>(0), out<T>(0)});
      } else {
        cuda::ForEach(stream(), pool_.y.Count(), AverageEach<T>{pool_, counts_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  cuda::Pool pool_;
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
  const cuda::Pool pool = kBackward ? cuda::PoolOf(query, output, input) : cuda::PoolOf(query, input, output);
  return std::make_unique<AverageKernel>(pool, counts, input.dtype, kBackward);
}

template <bool kBackward>
std::unique_ptr<Kernel> MakeUnpool(const KernelQuery& query) {
  const TensorType& small = kBackward ? query.outputs[0] : query.inputs[0];
  const TensorType& large = kBackward ? query.inputs[0] : query.outputs[0];
  cuda::Pool pool{cuda::PlanesOf(large), cuda::PlanesOf(small), {}};
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

}  // namespace

KernelDef CudaPoolAverage() { return MeanRow("pool_average", MakeAverage<false>); }
KernelDef CudaPoolAverageBackward() { return MeanRow("pool_average_backward", MakeAverage<true>); }
KernelDef CudaUnpool() { return MeanRow("unpool", MakeUnpool<false>); }
KernelDef CudaUnpoolBackward() { return MeanRow("unpool_backward", MakeUnpool<true>); }

}  // namespace moka

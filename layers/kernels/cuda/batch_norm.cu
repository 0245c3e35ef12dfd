// Batch normalisation by this batch's statistics or by given ones (formulas in
// layers/ops/normalisation/batch_norm.cpp). One sweep makes the statistics (statistics.cuh); another makes y.
#include <cmath>

#include "graph/kernel.h"
#include "layers/kernels/cuda/channel_elements.cuh"
#include "layers/kernels/cuda/normal.cuh"
#include "layers/kernels/cuda/statistics.cuh"

namespace moka {
namespace {

// The statistics, and what y takes of them.
template <class T>
struct BatchStatistics : cuda::Statistics<T> {
  using State = typename cuda::Statistics<T>::State;
  using Part = typename cuda::Statistics<T>::Part;
  using End = BatchStatistics;
  cuda::ChannelValues scale;
  cuda::ChannelValues shift;
  double eps;
  cuda::Coefficients<cuda::Wide<T>> coefficients;

  __host__ __device__ void Finish(int64_t c, const State& s) const {
    cuda::Statistics<T>::Finish(c, s);
    coefficients.Set(c, this->out.mean.Get(c), this->out.variance.Get(c), eps, scale, shift);
  }
};

// Elements of y, and of x where they come from. R: the residual's type.
template <class T, class R>
struct Normalize : cuda::OfCoefficients<cuda::Wide<T>> {
  using W = cuda::Wide<T>;
  template <int V>
  using Context = cuda::CoefficientPack<W, V>;
  cuda::SampledPlanes sampled;
  bool is_relu;
  const T* x;
  const R* residual;  // null: none
  T* y;

  template <int V>
  struct Loaded {
    cuda::Pack<T, V> x;
    cuda::Pack<R, V> residual;
  };
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>&, int64_t i) const {
    const int64_t from = sampled.PlaceInX(i);
    Loaded<V> loaded;
    loaded.x = cuda::LoadPack<V>(x + from);
    if (residual != nullptr) loaded.residual = cuda::LoadPack<V>(residual + from);
    return loaded;
  }
  template <int V>
  __host__ __device__ void Store(const Context<V>& c, int64_t i, const Loaded<V>& loaded) const {
    cuda::Pack<T, V> pack;
    for (int k = 0; k < V; ++k) {
      W value = c.Normal(k, cuda::ToWide(loaded.x.values[k]));
      if (residual != nullptr) value += cuda::ToWide(loaded.residual.values[k]);
      if (is_relu && value < 0) value = 0;
      pack.values[k] = cuda::Narrow<T>(value);
    }
    cuda::StorePack<V>(y + i, pack);
  }
};

// f.template operator()<V>(): the widest pack if everything packs, otherwise 1.
template <class T, class F>
void WithPack(bool packs, F&& f) {
  if (packs) return f.template operator()<cuda::kPack<T>>();
  return f.template operator()<1>();
}

// batch_norm, and batch_norm_apply, to which mean and variance are given.
class BatchNormKernel final : public BoundKernel {
 public:
  explicit BatchNormKernel(const KernelQuery& query)
      : x_(cuda::ChannelMapOf(query.inputs[0])),
        y_(cuda::ChannelMapOf(query.outputs[0])),
        dtype_(query.inputs[0].dtype),
        eps_(query.node.attributes.Float("eps")),
        is_relu_(query.node.attributes.Bool("relu")),
        applies_(query.outputs.size() == 1),
        has_residual_(query.node.attributes.Bool("sum")) {
    if (has_residual_) sampled_ = cuda::SampledPlanesOf(query.node.attributes, query.inputs[0], query.outputs[0]);
    const size_t first = applies_ ? 3 : 1;
    const bool is_affine = query.inputs.size() >= first + 2 + (has_residual_ ? 1U : 0U);
    scale_at_ = is_affine ? first : 0;
    for (const TensorType& type : query.inputs) input_types_.push_back(type.dtype);
    for (const TensorType& type : query.outputs) output_types_.push_back(type.dtype);
  }
  // Whether packs can be used depends on addresses, which are known when the kernel is bound, after scratch is booked:
  // so there is room for either plan.
  int64_t scratch_bytes() const override {
    const int64_t narrow = cuda::ChannelPlan(x_, 1).ScratchBytes<cuda::Statistics<float>::State>();
    const int64_t wide = cuda::ChannelPlan(x_, Pack()).ScratchBytes<cuda::Statistics<float>::State>();
    return CoefficientBytes() + std::max(narrow, wide);
  }

  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() { WithPack<T>(Packs<T>(), [&]<int V>() { RunPacked<T, V>(); }); });
  }

 private:
  int Pack() const { return cuda::PackOf(dtype_); }
  // Three values a channel, double at the widest, rounded up so that the states behind them are aligned.
  int64_t CoefficientBytes() const { return (3 * x_.channels * int64_t{sizeof(double)} + 15) / 16 * 16; }
  // The positions that strides leave of plain planes are no neighbours.
  template <class T>
  bool Packs() const {
    const bool is_aligned = cuda::IsPackAligned(in<T>(0)) && cuda::IsPackAligned(out<T>(0)) &&
                            (!has_residual_ || cuda::IsPackAligned(in<T>(input_count() - 1)));
    return is_aligned && x_.Packs(Pack()) && (x_.is_last || !sampled_.is_sampled);
  }
  cuda::ChannelValues Given(size_t i) const { return {const_cast<void*>(in<void>(i)), input_types_[i]}; }
  cuda::ChannelValues Wanted(size_t o) const { return {out<void>(o), output_types_[o]}; }

  template <class T, int V>
  void RunPacked() {
    const cuda::Coefficients<cuda::Wide<T>> coefficients(scratch<cuda::Wide<T>>(), x_.channels);
    const cuda::ChannelValues scale = scale_at_ == 0 ? cuda::ChannelValues{} : Given(scale_at_);
    const cuda::ChannelValues shift = scale_at_ == 0 ? cuda::ChannelValues{} : Given(scale_at_ + 1);
    if (applies_) {
      cuda::ForEach(stream(), x_.channels,
                    cuda::SetCoefficients<cuda::Wide<T>>{coefficients, Given(1), Given(2), scale, shift, eps_});
    } else {
      cuda::SumChannels<V>(
          stream(), cuda::ChannelPlan(x_, V), scratch<typename BatchStatistics<T>::State>(CoefficientBytes()),
          BatchStatistics<T>{{in<T>(0), {x_.PerChannel(), Wanted(1), Wanted(2)}}, scale, shift, eps_, coefficients});
    }
    if (has_residual_ && input_types_.back() != dtype_) {
      MakeResult<T, float, V>(coefficients);
    } else {
      MakeResult<T, T, V>(coefficients);
    }
  }

  // The residual's type R is its own as a float32 residual may meet half images.
  template <class T, class R, int V>
  void MakeResult(const cuda::Coefficients<cuda::Wide<T>>& coefficients) {
    const R* residual = has_residual_ ? in<R>(input_count() - 1) : nullptr;
    cuda::ForEachOfChannels<V>(stream(), y_,
                               Normalize<T, R>{{coefficients}, sampled_, is_relu_, in<T>(0), residual, out<T>(0)});
  }

  cuda::ChannelMap x_;
  cuda::ChannelMap y_;
  cuda::SampledPlanes sampled_;
  DType dtype_;
  double eps_;
  bool is_relu_;
  bool applies_;
  bool has_residual_;
  size_t scale_at_ = 0;  // its place among the inputs; 0: not given
  std::vector<DType> input_types_;
  std::vector<DType> output_types_;
};

// The residual may be wider than half images.
std::string Refuse(const KernelQuery& query) {
  if (!query.node.attributes.Bool("sum")) return cuda::RefuseUnlessNormal(query);
  if (query.inputs.back().dtype != query.inputs[0].dtype && query.inputs.back().dtype != DType::kFloat32) {
    return "the residual must be of the images' type or float32";
  }
  std::vector<TensorType> inputs(query.inputs.begin(), query.inputs.end());
  inputs.back().dtype = inputs[0].dtype;
  KernelQuery alike = query;
  alike.inputs = inputs;
  return cuda::RefuseUnlessNormal(alike);
}

KernelDef Row(const char* op) {
  return {.name = "moka",
          .op = op,
          .device = DeviceKind::kCuda,
          .refuse = Refuse,
          .propose = cuda::ProposeImages,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<BatchNormKernel>(query);
          }};
}

}  // namespace

KernelDef CudaBatchNorm() { return Row("batch_norm"); }
KernelDef CudaBatchNormApply() { return Row("batch_norm_apply"); }

}  // namespace moka

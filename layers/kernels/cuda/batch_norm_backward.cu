// The gradient of batch normalisation (formulas in layers/ops/normalisation/batch_norm_backward.cpp). One sweep sums g
// and g * (x - mean) a channel, g being the masked sum of the gradients, and writes g if it is a result; another makes
// dx = factor * (g - a - (x - mean) * b). What a training of half numbers has most, one or two gradients at every
// position and channels last, has kernels of its own for each mask.
#include "graph/kernel.h"
#include "layers/kernels/cuda/norm_gradient.cuh"

namespace moka {
namespace {

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
    mask_ = mask == "input" ? cuda::Mask::kInput : mask == "output" ? cuda::Mask::kOutput : cuda::Mask::kNone;
    for (const TensorType& type : query.inputs) input_types_.push_back(type.dtype);
    for (const TensorType& type : query.outputs) output_types_.push_back(type.dtype);
  }
  int64_t scratch_bytes() const override {
    const int64_t narrow = cuda::ChannelPlan(map_, 1).ScratchBytes<cuda::GradientState>();
    const int64_t wide = cuda::ChannelPlan(map_, Pack()).ScratchBytes<cuda::GradientState>();
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
        if (gradients_ == 1) return WithMask([&]<cuda::Mask kMask>() { RunFew<T, V, kMask, 1>(); });
        return WithMask([&]<cuda::Mask kMask>() { RunFew<T, V, kMask, 2>(); });
      }
    }
    using Any = cuda::AnyGradients<T>;
    const Sweeps<T> sweeps = Begin<T>();
    const auto& coefficients = sweeps.end.coefficients;
    Any gradient{{coefficients}, sampled_, mask_, static_cast<int>(gradients_), in<T>(0), in<T>(Y()), {}};
    for (size_t i = 0; i < gradients_; ++i) gradient.dy[i] = in<T>(3 + i);
    cuda::SumChannels<V>(stream(), cuda::ChannelPlan(map_, V), sweeps.partial,
                         cuda::GradientSums<T, Any>{sweeps.end, gradient, sweeps.residual});
    // The masked sum that is left may have been written over the gradients.
    if (sweeps.residual != nullptr)
      gradient = {{coefficients}, {}, cuda::Mask::kNone, 1, in<T>(0), nullptr, {sweeps.residual}};
    cuda::ForEachOfChannels<V>(stream(), map_, sweeps.template Second<Any>(gradient, out<T>(0)));
  }

  template <class F>
  void WithMask(F&& f) {
    if (mask_ == cuda::Mask::kInput) return f.template operator()<cuda::Mask::kInput>();
    if (mask_ == cuda::Mask::kOutput) return f.template operator()<cuda::Mask::kOutput>();
    return f.template operator()<cuda::Mask::kNone>();
  }

  template <class T, int V, cuda::Mask kMask, int kCount>
  void RunFew() {
    using Few = cuda::FewGradients<T, kMask, kCount>;
    using Left = cuda::FewGradients<T, cuda::Mask::kNone, 1>;
    const Sweeps<T> sweeps = Begin<T>();
    const auto& coefficients = sweeps.end.coefficients;
    Few gradient{in<T>(0), in<T>(Y()), {}, coefficients};
    for (int i = 0; i < kCount; ++i) gradient.dy[i] = in<T>(3 + static_cast<size_t>(i));
    cuda::SumLastChannels<V>(stream(), cuda::ChannelPlan(map_, V), sweeps.partial,
                             cuda::GradientSums<T, Few>{sweeps.end, gradient, sweeps.residual});
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
    cuda::GradientEnd<T> end;
    cuda::GradientState* partial;
    T* residual;

    template <class G>
    cuda::InputGradient<T, G> Second(const G& gradient, T* dx) const {
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
    const cuda::ChannelValues shift = is_affine_ && mask_ == cuda::Mask::kInput ? Given(4 + gradients_) : none;
    cuda::ForEach(stream(), map_.channels,
                  cuda::SetCoefficients<W>{coefficients, Given(1), Given(2), scale, shift, eps_});
    return {cuda::GradientEnd<T>{map_, coefficients, Given(2), is_affine_ ? Wanted(1) : none,
                                 is_affine_ ? Wanted(2) : none, eps_, first, first + map_.channels},
            scratch<cuda::GradientState>(ValueBytes()), has_residual_ ? out<T>(output_count() - 1) : nullptr};
  }

  cuda::ChannelMap map_;
  cuda::SampledPlanes sampled_;
  DType dtype_;
  double eps_;
  size_t gradients_;
  bool is_affine_;
  bool has_residual_;
  cuda::Mask mask_ = cuda::Mask::kNone;
  std::vector<DType> input_types_;
  std::vector<DType> output_types_;
};

// The functor has a pointer for each gradient, so their number is limited.
std::string Refuse(const KernelQuery& query) {
  if (query.node.attributes.Int("gradients") > cuda::kMaxGradients) {
    return StrCat("it adds ", cuda::kMaxGradients, " gradients at most, not ", query.node.attributes.Int("gradients"));
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

// The second half of the gradient of batch normalisation, where the sums of the masked gradient are given (formulas in
// layers/ops/normalisation/batch_norm_backward_apply.cpp): the channels' values, then one sweep that makes dx.
#include "graph/kernel.h"
#include "layers/kernels/cuda/norm_gradient.cuh"

namespace moka {
namespace {

// A channel's values for the sweep, from statistics and sums.
template <class T>
struct ChannelEnd {
  cuda::SetCoefficients<cuda::Wide<T>> coefficients;
  cuda::GradientEnd<T> end;
  cuda::ChannelValues sums;
  cuda::ChannelValues products;

  __host__ __device__ void operator()(int64_t c) const {
    coefficients(c);
    cuda::GradientState state{sums.Get(c), products.Get(c)};
    if constexpr (cuda::GradientEnd<T>::kIsCentered) state.products -= coefficients.mean.Get(c) * state.g;
    end.Finish(c, state);
  }
};

// Inputs: x, mean, variance, g, its sums, those of g * x, and scale where it is given.
class BatchNormBackwardApplyKernel final : public BoundKernel {
 public:
  explicit BatchNormBackwardApplyKernel(const KernelQuery& query)
      : map_(cuda::ChannelMapOf(query.inputs[0])),
        dtype_(query.inputs[0].dtype),
        eps_(query.node.attributes.Float("eps")),
        is_affine_(query.node.attributes.Bool("affine")) {
    for (const TensorType& type : query.inputs) input_types_.push_back(type.dtype);
    for (const TensorType& type : query.outputs) output_types_.push_back(type.dtype);
  }
  // Three coefficients and two values of dx.
  int64_t scratch_bytes() const override { return 5 * map_.channels * int64_t{sizeof(double)}; }

  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      using W = cuda::Wide<T>;
      const cuda::ChannelValues none;
      const cuda::ChannelValues scale = is_affine_ ? Given(6) : none;
      const cuda::Coefficients<W> coefficients(scratch<W>(), map_.channels);
      W* const first = coefficients.shift + map_.channels;
      W* const second = first + map_.channels;
      const cuda::GradientEnd<T> end{
          map_, coefficients, Given(2), is_affine_ ? Wanted(1) : none, is_affine_ ? Wanted(2) : none,
          eps_, first,        second};
      cuda::ForEach(stream(), map_.channels,
                    ChannelEnd<T>{{coefficients, Given(1), Given(2), scale, none, eps_}, end, Given(4), Given(5)});
      using Alone = cuda::FewGradients<T, cuda::Mask::kNone, 1>;
      const Alone g{in<T>(0), nullptr, {in<T>(3)}, coefficients};
      const cuda::InputGradient<T, Alone> sweep{g, coefficients, first, second, out<T>(0)};
      if (Packs()) {
        cuda::ForEachOfChannels<cuda::kPack<T>>(stream(), map_, sweep);
      } else {
        cuda::ForEachOfChannels<1>(stream(), map_, sweep);
      }
    });
  }

 private:
  bool Packs() const {
    return map_.Packs(cuda::PackOf(dtype_)) && cuda::IsPackAligned(in<void>(0)) && cuda::IsPackAligned(in<void>(3)) &&
           cuda::IsPackAligned(out<void>(0));
  }
  cuda::ChannelValues Given(size_t i) const { return {const_cast<void*>(in<void>(i)), input_types_[i]}; }
  cuda::ChannelValues Wanted(size_t o) const { return {out<void>(o), output_types_[o]}; }

  cuda::ChannelMap map_;
  DType dtype_;
  double eps_;
  bool is_affine_;
  std::vector<DType> input_types_;
  std::vector<DType> output_types_;
};

}  // namespace

KernelDef CudaBatchNormBackwardApply() {
  return {.name = "moka",
          .op = "batch_norm_backward_apply",
          .device = DeviceKind::kCuda,
          .refuse = cuda::RefuseUnlessNormal,
          .propose = cuda::ProposeImages,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<BatchNormBackwardApplyKernel>(query);
          }};
}

}  // namespace moka

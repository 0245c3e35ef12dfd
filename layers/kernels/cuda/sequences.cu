// Small ops of sequences and 8-bit integers: steps turned round, lengths from marks, the identity whose gradient is
// cut, `quantize` and `dequantize`.
#include <cmath>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

// Padding behind a sequence's length stays where it is, or becomes 0; only the length's steps are turned.
template <class T>
struct ReverseEach {
  int64_t steps;
  int64_t sequences;
  int64_t inner;
  bool copies;
  const T* x;
  const float* length;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t n = i / inner % sequences;
    const int64_t t = i / inner / sequences;
    const float given = length[n];
    // A length is cut off at the steps there are; less than one, or NaN, turns nothing.
    const float most = given < static_cast<float>(steps) ? given : static_cast<float>(steps);
    const int64_t turned = given >= 1 ? static_cast<int64_t>(most) : 0;
    const int64_t from = t < turned ? turned - 1 - t : t;
    y[i] = t < turned || copies ? x[(from * sequences + n) * inner + i % inner] : cuda::Narrow<T>(0);
  }
};

class ReverseTimeKernel final : public BoundKernel {
 public:
  explicit ReverseTimeKernel(const KernelQuery& query)
      : shape_(query.inputs[0].shape),
        dtype_(query.inputs[0].dtype),
        copies_(query.node.attributes.Bool("copy_remaining")) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), shape_.Count(),
                    ReverseEach<T>{shape_[0], shape_[1], shape_.Count(2, shape_.rank()), copies_, in<T>(0),
                                   in<float>(1), out<T>(0)});
    });
  }

 private:
  Shape shape_;
  DType dtype_;
  bool copies_;
};

template <class T>
struct LengthEach {
  int64_t steps;
  int64_t sequences;
  const T* marks;
  float* length;
  __host__ __device__ void operator()(int64_t n) const {
    using W = cuda::Wide<T>;
    int64_t t = 1;
    // A mark rounds to 0 where the next sequence, or the padding, begins; the first step's mark says nothing.
    while (t < steps && fabs(cuda::ToWide(marks[t * sequences + n]) + W{0.5}) >= 1) ++t;
    length[n] = static_cast<float>(t < steps ? t : steps);
  }
};

class SequenceLengthKernel final : public BoundKernel {
 public:
  explicit SequenceLengthKernel(const KernelQuery& query)
      : marks_(query.inputs[0].shape), dtype_(query.inputs[0].dtype) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), marks_[1], LengthEach<T>{marks_[0], marks_[1], in<T>(0), out<float>(0)});
    });
  }

 private:
  Shape marks_;
  DType dtype_;
};

// clip_gradient: any layout, the same on both sides.
class IdentityKernel final : public BoundKernel {
 public:
  explicit IdentityKernel(const KernelQuery& query) : bytes_(query.inputs[0].Bytes()) {}
  void Run() override {
    if (out<std::byte>(0) == in<std::byte>(0)) return;
    stream().CopyOnDevice(out<std::byte>(0), in<std::byte>(0), bytes_);
  }

 private:
  int64_t bytes_;
};

// rint rounds halves to even, as the CPU's vectors do; the clamp keeps 256 steps from `low` on.
template <class T, class Q>
struct QuantizeEach {
  const float* scales;
  int64_t stretch;  // elements of one scale
  double low;
  const T* x;
  Q* q;
  __host__ __device__ void operator()(int64_t i) const {
    const double value = rint(static_cast<double>(cuda::ToWide(x[i])) / static_cast<double>(scales[i / stretch]));
    const double held = value < low ? low : value > low + 255 ? low + 255 : value;
    q[i] = static_cast<Q>(held);
  }
};

template <class Q>
struct DequantizeEach {
  const float* scales;
  int64_t stretch;
  const Q* q;
  float* x;
  __host__ __device__ void operator()(int64_t i) const { x[i] = static_cast<float>(q[i]) * scales[i / stretch]; }
};

// The scales are copied from pinned memory before each run's work: they live as long as the kernel.
class QuantizeKernel final : public BoundKernel {
 public:
  explicit QuantizeKernel(const KernelQuery& query)
      : from_(query.inputs[0].dtype), to_(query.outputs[0].dtype), count_(query.inputs[0].shape.Count()) {
    const auto& scales = query.node.attributes.Get<Doubles>("scales");
    stretch_ = std::max<int64_t>(1, count_ / static_cast<int64_t>(scales.size()));
    scales_ = AllocatePinned(query.device, static_cast<int64_t>(scales.size() * sizeof(float)));
    auto* to = reinterpret_cast<float*>(scales_.data());
    for (const double scale : scales) *to++ = static_cast<float>(scale);
  }
  int64_t scratch_bytes() const override { return scales_.bytes(); }
  void Run() override {
    auto* scales = scratch<float>();
    stream().CopyToDevice(scratch<std::byte>(), scales_.data(), scales_.bytes());
    if (from_ == DType::kUInt8) {
      cuda::ForEach(stream(), count_, DequantizeEach<uint8_t>{scales, stretch_, in<uint8_t>(0), out<float>(0)});
    } else if (from_ == DType::kInt8) {
      cuda::ForEach(stream(), count_, DequantizeEach<int8_t>{scales, stretch_, in<int8_t>(0), out<float>(0)});
    } else {
      cuda::WithFloat(from_, [&]<class T>() {
        if (to_ == DType::kUInt8) {
          cuda::ForEach(stream(), count_, QuantizeEach<T, uint8_t>{scales, stretch_, 0, in<T>(0), out<uint8_t>(0)});
        } else {
          cuda::ForEach(stream(), count_, QuantizeEach<T, int8_t>{scales, stretch_, -128, in<T>(0), out<int8_t>(0)});
        }
      });
    }
  }

 private:
  DType from_;
  DType to_;
  int64_t count_;
  int64_t stretch_ = 1;
  DeviceBuffer scales_;
};

std::string RefuseReverse(const KernelQuery& query) {
  if (!IsFloat(query.inputs[0].dtype)) return "it works on real numbers";
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 1); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}
std::string RefuseLength(const KernelQuery& query) {
  return IsFloat(query.inputs[0].dtype) ? RefuseUnlessPlain(query) : "it works on real numbers";
}

}  // namespace

KernelDef CudaClipGradient() {
  return cuda::OwnRow<IdentityKernel>("clip_gradient", RefuseUnlessSameLayout, ProposeFirstLayout);
}
KernelDef CudaDequantize() { return cuda::OwnRow<QuantizeKernel>("dequantize", RefuseUnlessPlain); }
KernelDef CudaQuantize() { return cuda::OwnRow<QuantizeKernel>("quantize", RefuseUnlessPlain); }
KernelDef CudaReverseTime() { return cuda::OwnRow<ReverseTimeKernel>("reverse_time", RefuseReverse); }
KernelDef CudaSequenceLength() { return cuda::OwnRow<SequenceLengthKernel>("sequence_length", RefuseLength); }

}  // namespace moka

// Convolution and its gradients as plain loops, one thread an element of the result: for a rehearsed GPU, for machines
// without cuDNN, and for types and windows that it does not take. Up to three spatial axes, any order of axes in
// memory.
#include "core/text.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/channels.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/strides.cuh"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

constexpr int kSpatial = 3;

// One tensor [N,C,spatial..], spatial axes filled up in front to three.
struct View {
  int64_t extents[2 + kSpatial];
  int64_t strides[2 + kSpatial];

  __host__ __device__ int64_t Count() const {
    int64_t count = 1;
    for (const int64_t extent : extents) count *= extent;
    return count;
  }
  // Row-major index of an element to its place.
  __host__ __device__ void Split(int64_t i, int64_t (&index)[2 + kSpatial]) const {
    for (int axis = 1 + kSpatial; axis >= 0; --axis) {
      index[axis] = i % extents[axis];
      i /= extents[axis];
    }
  }
  __host__ __device__ int64_t At(const int64_t (&index)[2 + kSpatial]) const {
    int64_t at = 0;
    for (int axis = 0; axis < 2 + kSpatial; ++axis) at += index[axis] * strides[axis];
    return at;
  }
};

// Axes that a tensor lacks have extent 1 and stride 0, so that one nest of three loops serves one, two and three
// spatial axes.
View ViewOf(const TensorType& type) {
  const cuda::Strides strides = cuda::StridesOf(type);
  const int rank = type.shape.rank();
  View view{{1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}};
  for (int axis = 0; axis < rank; ++axis) {
    const int to = axis < 2 ? axis : axis + 2 + kSpatial - rank;
    view.extents[to] = type.shape[axis];
    view.strides[to] = strides[axis];
  }
  return view;
}

// The three tensors of a convolution and how a window lies over x. Forward and gradients read the same struct: which of
// the three is the result is the functor's affair.
struct Windows {
  View x, w, y;
  int64_t stride[kSpatial] = {1, 1, 1};
  int64_t pad[kSpatial] = {0, 0, 0};
  int64_t dilation[kSpatial] = {1, 1, 1};
  int64_t groups = 1;

  // The position in x of window element k at output o along an axis; -1 in the padding.
  __host__ __device__ int64_t Input(int axis, int64_t o, int64_t k) const {
    const int64_t i = o * stride[axis] - pad[axis] + k * dilation[axis];
    return i >= 0 && i < x.extents[2 + axis] ? i : -1;
  }
  // The output position whose window element k is position i of x; -1 where there is none.
  __host__ __device__ int64_t Output(int axis, int64_t i, int64_t k) const {
    const int64_t from = i + pad[axis] - k * dilation[axis];
    if (from < 0 || from % stride[axis] != 0) return -1;
    const int64_t o = from / stride[axis];
    return o < y.extents[2 + axis] ? o : -1;
  }
};

Windows WindowsOf(const KernelQuery& query, const TensorType& x, const TensorType& w, const TensorType& y) {
  Windows all{.x = ViewOf(x), .w = ViewOf(w), .y = ViewOf(y)};
  const Geometry geometry = ConvolutionGeometry(query.node.op->name, query.node.attributes, w.shape);
  for (int i = 0; i < geometry.rank(); ++i) {
    const auto from = static_cast<size_t>(i);
    const int to = i + kSpatial - geometry.rank();
    all.stride[to] = geometry.stride[from];
    all.pad[to] = geometry.pad_begin[from];
    all.dilation[to] = geometry.dilation[from];
  }
  all.groups = query.node.attributes.Int("groups");
  return all;
}

// The loops test a position before they enter the next axis, so that a row or plane in the padding costs one test.
// Bias, summand and ReLU are applied to the wide sum, before the only rounding.
template <class T>
struct Forward {
  Windows v;
  const T* x;
  const T* w;
  const T* bias;     // null: none
  const T* summand;  // as y lies; null: none
  bool relu;
  T* y;

  __host__ __device__ void operator()(int64_t i) const {
    // at: image, output channel and position; `first` is the first input channel of the output's group.
    int64_t at[2 + kSpatial];
    v.y.Split(i, at);
    const int64_t per_group = v.w.extents[1];
    const int64_t first = at[1] / (v.w.extents[0] / v.groups) * per_group;
    cuda::Wide<T> sum = 0;
    for (int64_t a = 0; a < v.w.extents[2]; ++a) {
      const int64_t d = v.Input(0, at[2], a);
      for (int64_t b = 0; d >= 0 && b < v.w.extents[3]; ++b) {
        const int64_t h = v.Input(1, at[3], b);
        for (int64_t c = 0; h >= 0 && c < v.w.extents[4]; ++c) {
          const int64_t p = v.Input(2, at[4], c);
          for (int64_t channel = 0; p >= 0 && channel < per_group; ++channel) {
            sum += cuda::ToWide(x[v.x.At({at[0], first + channel, d, h, p})]) *
                   cuda::ToWide(w[v.w.At({at[1], channel, a, b, c})]);
          }
        }
      }
    }
    if (bias != nullptr) sum += cuda::ToWide(bias[at[1]]);
    if (summand != nullptr) sum += cuda::ToWide(summand[v.y.At(at)]);
    y[v.y.At(at)] = cuda::Narrow<T>(relu && sum < 0 ? 0 : sum);
  }
};

// The gradient of x gathers: for each tap it asks which output, if any, had this element under that tap. Nothing is
// scattered, so there are no atomics and each sum has one order.
template <class T>
struct BackwardData {
  Windows v;
  const T* dy;
  const T* w;
  T* dx;

  __host__ __device__ void operator()(int64_t i) const {
    int64_t at[2 + kSpatial];
    v.x.Split(i, at);
    const int64_t per_group = v.w.extents[0] / v.groups;
    // Channels of x and y of one group meet: `channel` is x's within its group, `first` the group's first channel of y.
    const int64_t channel = at[1] % v.w.extents[1];
    const int64_t first = at[1] / v.w.extents[1] * per_group;
    cuda::Wide<T> sum = 0;
    for (int64_t a = 0; a < v.w.extents[2]; ++a) {
      const int64_t d = v.Output(0, at[2], a);
      for (int64_t b = 0; d >= 0 && b < v.w.extents[3]; ++b) {
        const int64_t h = v.Output(1, at[3], b);
        for (int64_t c = 0; h >= 0 && c < v.w.extents[4]; ++c) {
          const int64_t p = v.Output(2, at[4], c);
          for (int64_t k = 0; p >= 0 && k < per_group; ++k) {
            sum += cuda::ToWide(dy[v.y.At({at[0], first + k, d, h, p})]) *
                   cuda::ToWide(w[v.w.At({first + k, channel, a, b, c})]);
          }
        }
      }
    }
    dx[v.x.At(at)] = cuda::Narrow<T>(sum);
  }
};

// A row is a weight, its elements the products that reach it: positions of all images.
template <class T>
struct BackwardWeights {
  Windows v;
  const T* x;
  const T* dy;
  T* dw;

  using State = cuda::Wide<T>;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t row, int64_t i, State& sum) const {
    int64_t at[2 + kSpatial];
    v.w.Split(row, at);
    // i counts the positions of all images, the last axis fastest.
    const int64_t p = i % v.y.extents[4];
    const int64_t h = i / v.y.extents[4] % v.y.extents[3];
    const int64_t d = i / (v.y.extents[4] * v.y.extents[3]) % v.y.extents[2];
    const int64_t n = i / (v.y.extents[4] * v.y.extents[3] * v.y.extents[2]);
    const int64_t from[] = {v.Input(0, d, at[2]), v.Input(1, h, at[3]), v.Input(2, p, at[4])};
    if (from[0] < 0 || from[1] < 0 || from[2] < 0) return;
    const int64_t channel = at[0] / (v.w.extents[0] / v.groups) * v.w.extents[1] + at[1];
    // One product of the sum over images and positions that a weight's gradient is.
    sum += cuda::ToWide(x[v.x.At({n, channel, from[0], from[1], from[2]})]) *
           cuda::ToWide(dy[v.y.At({n, at[0], d, h, p})]);
  }
  __host__ __device__ static void Join(State& sum, const State& other) { sum += other; }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t row, const State& sum) const {
    int64_t at[2 + kSpatial];
    v.w.Split(row, at);
    dw[v.w.At(at)] = cuda::Narrow<T>(sum);
  }
};

std::string Refuse(const KernelQuery& query) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.shape.rank() > 2 + kSpatial) return StrCat("it has up to three spatial axes, not ", type.ToString());
      if (type.dtype != query.inputs[0].dtype) return "the tensors are not of one type";
      if (!IsPlainOrChannelsLast(type))
        return StrCat("it takes plain tensors and channels last, not ", type.ToString());
    }
  }
  return {};
}

// y, with the epilogue that the fusion passes have put into the node.
class ForwardKernel final : public BoundKernel {
 public:
  explicit ForwardKernel(const KernelQuery& query)
      : windows_(WindowsOf(query, query.inputs[0], query.inputs[1], query.outputs[0])),
        dtype_(query.outputs[0].dtype),
        relu_(query.node.attributes.String("activation") == "relu"),
        sum_(query.node.attributes.Bool("sum")),
        bias_(query.inputs.size() == (sum_ ? 4U : 3U)) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), windows_.y.Count(),
                    Forward<T>{windows_, in<T>(0), in<T>(1), bias_ ? in<T>(2) : nullptr,
                               sum_ ? in<T>(input_count() - 1) : nullptr, relu_, out<T>(0)});
    });
  }

 private:
  Windows windows_;
  DType dtype_;
  bool relu_;
  bool sum_;
  bool bias_;
};

// y as the forward kernel's, then a sweep over it.
class StatisticsKernel final : public BoundKernel {
 public:
  explicit StatisticsKernel(const KernelQuery& query)
      : windows_(WindowsOf(query, query.inputs[0], query.inputs[1], query.outputs[0])), y_(query.outputs[0]) {}
  int64_t scratch_bytes() const override { return cuda::StatisticsScratch(y_); }
  void Run() override {
    cuda::WithFloat(y_.dtype, [&]<class T>() {
      cuda::ForEach(stream(), windows_.y.Count(),
                    Forward<T>{windows_, in<T>(0), in<T>(1), nullptr, nullptr, false, out<T>(0)});
    });
    cuda::TakeStatistics(stream(), y_, out<void>(0), out<void>(1), out<void>(2), scratch<std::byte>());
  }

 private:
  Windows windows_;
  TensorType y_;
};

// Refuses by the images and weights; the statistics have a type of their own.
std::string RefuseStatistics(const KernelQuery& query) {
  if (query.outputs[0].shape.Count() == 0) return "there is nothing to take statistics of";
  KernelQuery images = query;
  images.outputs = query.outputs.first(1);
  return Refuse(images);
}

// The sweep behind it wants the batch norm's tensors to lie alike.
std::string RefuseGradientSums(const KernelQuery& query) {
  for (const TensorType& type : query.inputs.subspan(2)) {
    if (!cuda::LieAlike(type, query.outputs[0]))
      return StrCat("the layout of ", type.ToString(), " is not the one of ", query.outputs[0].ToString());
  }
  return RefuseStatistics(query);
}

// dx of dy and w; the query's output is x, its first input y.
class BackwardDataKernel final : public BoundKernel {
 public:
  explicit BackwardDataKernel(const KernelQuery& query)
      : windows_(WindowsOf(query, query.outputs[0], query.inputs[1], query.inputs[0])),
        dtype_(query.outputs[0].dtype) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), windows_.x.Count(), BackwardData<T>{windows_, in<T>(0), in<T>(1), out<T>(0)});
    });
  }

 private:
  Windows windows_;
  DType dtype_;
};

// dx as the kernel above, then a sweep that makes of it what a batch norm wants.
class BackwardDataSumsKernel final : public BoundKernel {
 public:
  explicit BackwardDataSumsKernel(const KernelQuery& query)
      : windows_(WindowsOf(query, query.outputs[0], query.inputs[1], query.inputs[0])),
        x_(query.outputs[0]),
        sum_(query.node.attributes.Bool("sum")),
        mask_(query.node.attributes.Bool("mask")) {}
  int64_t scratch_bytes() const override { return cuda::GradientSumsScratch(x_); }
  void Run() override {
    cuda::WithFloat(x_.dtype, [&]<class T>() {
      cuda::ForEach(stream(), windows_.x.Count(), BackwardData<T>{windows_, in<T>(0), in<T>(1), out<T>(0)});
    });
    cuda::TakeGradientSums(
        stream(), x_,
        {out<void>(0), sum_ ? in<void>(3) : nullptr, mask_ ? in<void>(input_count() - 1) : nullptr, in<void>(2)},
        out<void>(0), out<void>(1), out<void>(2), scratch<std::byte>());
  }

 private:
  Windows windows_;
  TensorType x_;
  bool sum_;
  bool mask_;
};

// dw as rows of sums, and the bias's gradient as sums of dy's channels.
class BackwardWeightsKernel final : public BoundKernel {
 public:
  explicit BackwardWeightsKernel(const KernelQuery& query)
      : windows_(WindowsOf(query, query.inputs[0], query.outputs[0], query.inputs[1])),
        y_(query.inputs[1]),
        has_bias_(query.outputs.size() == 2) {}
  int64_t scratch_bytes() const override { return has_bias_ ? cuda::ChannelSumScratch(y_) : 0; }
  void Run() override {
    const int64_t positions = windows_.y.Count() / windows_.y.extents[1];
    cuda::WithFloat(y_.dtype, [&]<class T>() {
      cuda::ForEachRow(stream(), windows_.w.Count(), positions,
                       BackwardWeights<T>{windows_, in<T>(0), in<T>(1), out<T>(0)});
    });
    if (has_bias_) cuda::SumChannels(stream(), y_, in<void>(1), out<void>(1), scratch<std::byte>());
  }

 private:
  Windows windows_;
  TensorType y_;
  bool has_bias_;
};

template <class K>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<K>(query);
}

KernelDef Row(std::string op, std::unique_ptr<Kernel> (*make)(const KernelQuery&)) {
  return {.name = "loop", .op = std::move(op), .device = DeviceKind::kCuda, .refuse = Refuse, .make = make, .turn = 1};
}

}  // namespace

KernelDef CudaConvolutionStatisticsLoop() {
  KernelDef row = Row("convolution_statistics", Make<StatisticsKernel>);
  row.refuse = RefuseStatistics;
  row.propose = cuda::ProposeImages;
  return row;
}
KernelDef CudaConvolutionLoopBackwardDataSums() {
  KernelDef row = Row("convolution_backward_data_sums", Make<BackwardDataSumsKernel>);
  row.refuse = RefuseGradientSums;
  row.propose = cuda::ProposeImages;
  return row;
}
KernelDef CudaConvolutionLoop() { return Row("convolution", Make<ForwardKernel>); }
KernelDef CudaConvolutionLoopBackwardData() { return Row("convolution_backward_data", Make<BackwardDataKernel>); }
KernelDef CudaConvolutionLoopBackwardWeights() {
  return Row("convolution_backward_weights", Make<BackwardWeightsKernel>);
}

}  // namespace moka

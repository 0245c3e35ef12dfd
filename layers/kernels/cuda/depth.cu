// Blocks of pixels as channels and back (formulas in layers/ops/shape/space_to_depth.cpp), between any layouts without
// blocks. Half values that lie with channels last are written eight at a time.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/divide.cuh"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/pack.cuh"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/strides.cuh"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

// The two tensors: x [N,C,H,W] of pixels, y [N,D,P,Q] of blocks.
struct Depth {
  cuda::Strides x;
  cuda::Strides y;
  int channels;
  int height;
  int width;
  int64_t depth;
  int64_t rows;
  int64_t columns;
  int block[2];
  int pad[2];

  // Where the element of channel d of a block lies in x; -1: nowhere.
  __host__ __device__ int64_t PlaceInX(int64_t n, int d, int64_t p, int64_t q) const {
    const int part = d / channels;
    const int64_t h = p * block[0] + part / block[1] - pad[0];
    const int64_t w = q * block[1] + part % block[1] - pad[1];
    if (part >= block[0] * block[1] || h < 0 || h >= height || w < 0 || w >= width) return -1;
    return n * x[0] + (d - part * channels) * x[1] + h * x[2] + w * x[3];
  }
};

Depth DepthOf(const Attributes& attributes, const TensorType& x, const TensorType& y, bool has_pad) {
  const Ints& block = attributes.Get<Ints>("block");
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  Depth depth{cuda::StridesOf(x),
              cuda::StridesOf(y),
              narrow(x.shape[1]),
              narrow(x.shape[2]),
              narrow(x.shape[3]),
              y.shape[1],
              y.shape[2],
              y.shape[3],
              {narrow(block[0]), narrow(block[1])},
              {0, 0}};
  if (!has_pad) return depth;
  const Ints& pad = attributes.Get<Ints>("pad");
  for (size_t i = 0; i < 2; ++i) depth.pad[i] = narrow(pad[i]);
  return depth;
}

// V neighbouring channels of y.
template <class T, int V>
struct ToDepth {
  Depth depth;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t first = cuda::Divide(i, depth.depth / V) * V;
    const int64_t q = cuda::Divide(i, depth.columns);
    const int64_t p = cuda::Divide(i, depth.rows);
    cuda::Pack<T, V> pack;
    for (int k = 0; k < V; ++k) {
      const int64_t from = depth.PlaceInX(i, static_cast<int>(first) + k, p, q);
      pack.values[k] = from < 0 ? cuda::Narrow<T>(0) : x[from];
    }
    cuda::StorePack<V>(y + i * depth.y[0] + first * depth.y[1] + p * depth.y[2] + q * depth.y[3], pack);
  }
};

template <class T>
struct ToSpace {
  Depth depth;
  const T* y;
  T* x;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t w = cuda::Divide(i, depth.width);
    const int64_t h = cuda::Divide(i, depth.height);
    const int64_t c = cuda::Divide(i, depth.channels);
    const int64_t part = h % depth.block[0] * depth.block[1] + w % depth.block[1];
    const int64_t d = part * depth.channels + c;
    x[i * depth.x[0] + c * depth.x[1] + h * depth.x[2] + w * depth.x[3]] =
        y[i * depth.y[0] + d * depth.y[1] + h / depth.block[0] * depth.y[2] + w / depth.block[1] * depth.y[3]];
  }
};

class ToDepthKernel final : public BoundKernel {
 public:
  explicit ToDepthKernel(const KernelQuery& query)
      : depth_(DepthOf(query.node.attributes, query.inputs[0], query.outputs[0], true)),
        count_(query.outputs[0].shape.Count()),
        dtype_(query.outputs[0].dtype) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      constexpr int kWidth = cuda::kPack<T>;
      if (depth_.y[1] == 1 && depth_.depth % kWidth == 0 && cuda::IsPackAligned(out<void>(0))) {
        cuda::ForEach(stream(), count_ / kWidth, ToDepth<T, kWidth>{depth_, in<T>(0), out<T>(0)});
      } else {
        cuda::ForEach(stream(), count_, ToDepth<T, 1>{depth_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  Depth depth_;
  int64_t count_;
  DType dtype_;
};

class ToSpaceKernel final : public BoundKernel {
 public:
  explicit ToSpaceKernel(const KernelQuery& query)
      : depth_(DepthOf(query.node.attributes, query.outputs[0], query.inputs[0], false)),
        count_(query.outputs[0].shape.Count()),
        dtype_(query.outputs[0].dtype) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      cuda::ForEach(stream(), count_, ToSpace<T>{depth_, in<T>(0), out<T>(0)});
    });
  }

 private:
  Depth depth_;
  int64_t count_;
  DType dtype_;
};

std::string Refuse(const KernelQuery& query) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.layout.block_count > 0) return StrCat("it takes layouts without blocks, not ", type.ToString());
      if (type.dtype != query.inputs[0].dtype) return "the tensors are not of one type";
      for (const int64_t extent : type.shape.dims()) {
        if (extent > INT32_MAX) return StrCat("an axis of ", type.ToString(), " is too long");
      }
    }
  }
  return {};
}

// The input is read as it lies; convolutions read blocks with channels last.
template <bool to_depth>
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const Layout given = query.inputs[0].layout.block_count > 0 ? Layout{} : query.inputs[0].layout;
  return LayoutProposal{{given}, {to_depth ? ChannelsLast(4) : Layout{}}};
}

}  // namespace

KernelDef CudaSpaceToDepth() { return cuda::OwnRow<ToDepthKernel>("space_to_depth", Refuse, Propose<true>); }
KernelDef CudaDepthToSpace() { return cuda::OwnRow<ToSpaceKernel>("depth_to_space", Refuse, Propose<false>); }

}  // namespace moka

// The windows of a convolution laid out as channels (im2col), and their sum (col2im), over plain or channels-last
// tensors. Channel c * size + position of a column is position of the window over channel c.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

// A window's axis: position k covers o * stride - pad + k * dilation.
struct Axis {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t pad = 0;
  int64_t dilation = 1;
};

struct Columns {
  cuda::Planes x;
  cuda::Planes y;  // of columns: size() times as many channels
  Axis axis[3];
  __host__ __device__ int64_t size() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
};

Columns ColumnsOf(const Attributes& a, const TensorType& x, const TensorType& y) {
  Columns columns{cuda::PlanesOf(x), cuda::PlanesOf(y), {}};
  const Ints& kernel = a.Get<Ints>("kernel");
  for (size_t i = 0; i < kernel.size(); ++i) {
    columns.axis[3 - kernel.size() + i] = {kernel[i], a.Get<Ints>("stride")[i], a.Get<Ints>("pad_begin")[i],
                                           a.Get<Ints>("dilation")[i]};
  }
  return columns;
}

// A thread writes one element of the columns. A pixel is copied into as many as windows hold it, so that most reads
// come from a cache.
template <class T>
struct Im2ColEach {
  Columns s;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place o = s.y.At(i);
    // The position in the window by axes, the last fastest; each gives the input's index along its axis.
    int64_t position = o.c % s.size();
    int64_t at[3];
    bool is_inside = true;
    for (int a = 2; a >= 0; --a) {
      at[a] = o.at[a] * s.axis[a].stride - s.axis[a].pad + position % s.axis[a].kernel * s.axis[a].dilation;
      position /= s.axis[a].kernel;
      is_inside = is_inside && at[a] >= 0 && at[a] < s.x.size[a];
    }
    y[i] = is_inside ? x[s.x.Offset(o.n, o.c / s.size(), s.x.InPlane(at))] : cuda::Narrow<T>(0);
  }
};

// The adjoint gathers: a pixel adds the elements of the columns that are copies of it.
template <class T>
struct Col2ImEach {
  Columns s;
  const T* y;
  T* x;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place p = s.x.At(i);
    cuda::Wide<T> sum = 0;
    for (int64_t position = 0; position < s.size(); ++position) {
      int64_t o[3];
      int64_t rest = position;
      bool is_inside = true;
      for (int a = 2; a >= 0; --a) {
        // o stride - pad + k dilation = at, solved for o: there is a window only if the division leaves nothing.
        const int64_t start = p.at[a] + s.axis[a].pad - rest % s.axis[a].kernel * s.axis[a].dilation;
        rest /= s.axis[a].kernel;
        o[a] = start / s.axis[a].stride;
        is_inside = is_inside && start >= 0 && start % s.axis[a].stride == 0 && o[a] < s.y.size[a];
      }
      if (is_inside) sum += cuda::ToWide(y[s.y.Offset(p.n, p.c * s.size() + position, s.y.InPlane(o))]);
    }
    x[i] = cuda::Narrow<T>(sum);
  }
};

class ColumnsKernel final : public BoundKernel {
 public:
  ColumnsKernel(const KernelQuery& query, bool is_sum)
      : columns_(is_sum ? ColumnsOf(query.node.attributes, query.outputs[0], query.inputs[0])
                        : ColumnsOf(query.node.attributes, query.inputs[0], query.outputs[0])),
        dtype_(query.inputs[0].dtype),
        is_sum_(is_sum) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (is_sum_) {
        cuda::ForEach(stream(), columns_.x.Count(), Col2ImEach<T>{columns_, in<T>(0), out<T>(0)});
      } else {
        cuda::ForEach(stream(), columns_.y.Count(), Im2ColEach<T>{columns_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  Columns columns_;
  DType dtype_;
  bool is_sum_;
};

}  // namespace

KernelDef CudaCol2Im() {
  return cuda::OwnRow<ColumnsKernel, true>("col2im", cuda::RefuseUnlessImages, cuda::ProposeImages);
}
KernelDef CudaIm2Col() {
  return cuda::OwnRow<ColumnsKernel, false>("im2col", cuda::RefuseUnlessImages, cuda::ProposeImages);
}

}  // namespace moka

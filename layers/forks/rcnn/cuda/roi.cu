// Pooling over regions of interest and its gradients (where the bins lie: layers/forks/rcnn/ops/windows.h), over plain
// or channels-last maps. A gradient gathers: each pixel of the map goes through the regions that cover it in their
// order.
#include <algorithm>
#include <cstdint>

#include "graph/kernel.h"
#include "layers/forks/rcnn/ops/windows.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

// The maps x [N,C,H,W], the bins y [R,c,h,w], and the regions [R,5].
struct Regions {
  cuda::Planes x;
  cuda::Planes y;
  const float* rois;
  __host__ __device__ const float* Roi(int64_t r) const { return rois + r * 5; }
  __host__ __device__ int64_t Image(int64_t r) const { return ImageOfRoi(Roi(r)[0], x.images); }
};

// roi_pool ------------------------------------------------------------------------------------------------------------

template <class T>
struct RoiPoolEach {
  Regions s;
  float scale;
  const T* x;
  T* y;
  int32_t* argmax;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place o = s.y.At(i);
    const float* roi = s.Roi(o.n);
    const int64_t image = s.Image(o.n);
    const PixelRange rows = RoiPoolRange(roi[2], roi[4], scale, o.at[1], s.y.size[1], s.x.size[1]);
    const PixelRange columns = RoiPoolRange(roi[1], roi[3], scale, o.at[2], s.y.size[2], s.x.size[2]);
    T best = cuda::Narrow<T>(0);
    int64_t best_at = -1;
    for (int64_t h = rows.begin; image >= 0 && h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const T value = x[s.x.Offset(image, o.c, h * s.x.size[2] + w)];
        if (best_at >= 0 && !(cuda::ToWide(value) > cuda::ToWide(best))) continue;
        best = value;
        best_at = h * s.x.size[2] + w;
      }
    }
    y[i] = best;
    argmax[i] = static_cast<int32_t>(best_at);
  }
};

// The image of a region and the box around all pixels that its bins took.
struct TakenBox {
  int64_t image;  // -1: none
  int32_t top;
  int32_t left;
  int32_t bottom;  // the last row
  int32_t right;
  __host__ __device__ bool Has(const cuda::Place& p) const {
    return p.n == image && p.at[1] >= top && p.at[1] <= bottom && p.at[2] >= left && p.at[2] <= right;
  }
};

// Row r goes through the bins of region r in all channels, which lie together in either layout.
struct TakenRow {
  Regions s;
  const int32_t* argmax;
  TakenBox* boxes;

  using State = TakenBox;
  __host__ __device__ State Start() const { return {-1, INT32_MAX, INT32_MAX, -1, -1}; }
  __host__ __device__ void Add(int64_t r, int64_t i, State& box) const {
    const int32_t pixel = argmax[r * s.y.channels * s.y.PlaneSize() + i];
    if (pixel < 0) return;
    const auto width = static_cast<int32_t>(s.x.size[2]);
    const int32_t row = pixel / width;
    const int32_t column = pixel % width;
    Join(box, {-1, row, column, row, column});
  }
  __host__ __device__ static void Join(State& box, const State& other) {
    box.top = std::min(box.top, other.top);
    box.left = std::min(box.left, other.left);
    box.bottom = std::max(box.bottom, other.bottom);
    box.right = std::max(box.right, other.right);
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t r, const State& box) const {
    boxes[r] = box;
    boxes[r].image = s.Image(r);
  }
};

template <class T>
struct RoiPoolBackwardEach {
  Regions s;
  const TakenBox* boxes;
  const T* dy;
  const int32_t* argmax;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place p = s.x.At(i);
    const int64_t pixel = s.x.InPlane(p.at);
    cuda::Wide<T> sum = 0;
    for (int64_t r = 0; r < s.y.images; ++r) {
      if (!boxes[r].Has(p)) continue;
      for (int64_t bin = 0; bin < s.y.PlaneSize(); ++bin) {
        const int64_t at = s.y.Offset(r, p.c, bin);
        if (argmax[at] == pixel) sum += cuda::ToWide(dy[at]);
      }
    }
    dx[i] = cuda::Narrow<T>(sum);
  }
};

// roi_align -----------------------------------------------------------------------------------------------------------

template <class W>
__host__ __device__ AlignAxis<W> RowsOf(const Regions& s, const AlignFields& fields, int64_t r) {
  return AlignAxisOf<W>(s.Roi(r)[2], s.Roi(r)[4], fields, s.y.size[1], s.x.size[1]);
}
template <class W>
__host__ __device__ AlignAxis<W> ColumnsOf(const Regions& s, const AlignFields& fields, int64_t r) {
  return AlignAxisOf<W>(s.Roi(r)[1], s.Roi(r)[3], fields, s.y.size[2], s.x.size[2]);
}

template <class T>
struct RoiAlignEach {
  Regions s;
  AlignFields fields;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place o = s.y.At(i);
    const int64_t image = s.Image(o.n);
    W sum = 0;
    if (image >= 0) {
      VisitAlignBin(RowsOf<W>(s, fields, o.n), ColumnsOf<W>(s, fields, o.n), o.at[1], o.at[2],
                    [&](int64_t pixel, W weight) { sum += weight * cuda::ToWide(x[s.x.Offset(image, o.c, pixel)]); });
    }
    y[i] = cuda::Narrow<T>(sum);
  }
};

// Returns the weight with which the samples of a bin take one pixel along an axis, not yet divided by their count.
template <class W>
__host__ __device__ W WeightAlong(const AlignAxis<W>& axis, int64_t bin, int64_t pixel) {
  W sum = 0;
  for (int64_t j = 0; j < axis.grid; ++j) {
    const Taps<W> taps = axis.At(bin, j);
    if (!taps.is_inside) continue;
    if (taps.low == pixel) sum += 1 - taps.high_weight;
    if (taps.high == pixel) sum += taps.high_weight;
  }
  return sum;
}

// Whether a sample of some bin may take of a pixel: all lie between the ends of the region, and those that are beyond
// the map take its first or last pixel. A pixel more on either side, so that rounding does not matter.
template <class W>
__host__ __device__ bool MayTouch(const AlignAxis<W>& axis, int64_t bins, int64_t pixel) {
  const W end = axis.start + static_cast<W>(bins) * axis.step;
  const auto last = static_cast<W>(axis.size - 1);
  const W low = std::clamp<W>(std::min(axis.start, end), 0, last);
  const W high = std::clamp<W>(std::max(axis.start, end), 0, last);
  return static_cast<W>(pixel + 2) > low && static_cast<W>(pixel - 2) < high;
}

// The weights of a pixel are products of one along the rows and one along the columns.
template <class T>
struct RoiAlignBackwardEach {
  Regions s;
  AlignFields fields;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place p = s.x.At(i);
    W sum = 0;
    for (int64_t r = 0; r < s.y.images; ++r) {
      if (s.Image(r) != p.n) continue;
      const AlignAxis<W> rows = RowsOf<W>(s, fields, r);
      if (!MayTouch(rows, s.y.size[1], p.at[1])) continue;
      const AlignAxis<W> columns = ColumnsOf<W>(s, fields, r);
      if (!MayTouch(columns, s.y.size[2], p.at[2])) continue;
      const int64_t samples = rows.grid * columns.grid;
      for (int64_t h = 0; h < s.y.size[1]; ++h) {
        const W down = WeightAlong(rows, h, p.at[1]);
        if (down == 0) continue;
        for (int64_t w = 0; w < s.y.size[2]; ++w) {
          const W across = WeightAlong(columns, w, p.at[2]);
          if (across == 0) continue;
          sum += down * across / static_cast<W>(samples) * cuda::ToWide(dy[s.y.Offset(r, p.c, h * s.y.size[2] + w)]);
        }
      }
    }
    dx[i] = cuda::Narrow<T>(sum);
  }
};

// psroi_pool ----------------------------------------------------------------------------------------------------------

struct PsroiBin {
  PixelRange rows;
  PixelRange columns;
  __host__ __device__ PsroiBin(const Regions& s, float scale, int64_t r, int64_t i, int64_t j)
      : rows(PsroiPoolRange(s.Roi(r)[2], s.Roi(r)[4], scale, i, s.y.size[1], s.x.size[1])),
        columns(PsroiPoolRange(s.Roi(r)[1], s.Roi(r)[3], scale, j, s.y.size[2], s.x.size[2])) {}
  __host__ __device__ bool is_empty() const { return rows.is_empty() || columns.is_empty(); }
  __host__ __device__ int64_t Count() const { return (rows.end - rows.begin) * (columns.end - columns.begin); }
  __host__ __device__ bool Has(int64_t h, int64_t w) const {
    return h >= rows.begin && h < rows.end && w >= columns.begin && w < columns.end;
  }
};

template <class T>
struct PsroiPoolEach {
  Regions s;
  float scale;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place o = s.y.At(i);
    const int64_t image = s.Image(o.n);
    const int64_t channel = (o.c * s.y.size[1] + o.at[1]) * s.y.size[2] + o.at[2];
    const PsroiBin bin(s, scale, o.n, o.at[1], o.at[2]);
    W sum = 0;
    if (image >= 0 && !bin.is_empty()) {
      for (int64_t h = bin.rows.begin; h < bin.rows.end; ++h) {
        for (int64_t w = bin.columns.begin; w < bin.columns.end; ++w) {
          sum += cuda::ToWide(x[s.x.Offset(image, channel, h * s.x.size[2] + w)]);
        }
      }
      sum /= static_cast<W>(bin.Count());
    }
    y[i] = cuda::Narrow<T>(sum);
  }
};

// A channel of x is read by one bin alone.
template <class T>
struct PsroiPoolBackwardEach {
  Regions s;
  float scale;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place p = s.x.At(i);
    const int64_t column = p.c % s.y.size[2];
    const int64_t row = p.c / s.y.size[2] % s.y.size[1];
    const int64_t channel = p.c / s.y.PlaneSize();
    W sum = 0;
    for (int64_t r = 0; r < s.y.images; ++r) {
      if (s.Image(r) != p.n) continue;
      const PsroiBin bin(s, scale, r, row, column);
      if (!bin.Has(p.at[1], p.at[2])) continue;
      sum += cuda::ToWide(dy[s.y.Offset(r, channel, row * s.y.size[2] + column)]) / static_cast<W>(bin.Count());
    }
    dx[i] = cuda::Narrow<T>(sum);
  }
};

// Kernels -------------------------------------------------------------------------------------------------------------

// The regions are the last input of all of them.
class RegionKernel : public BoundKernel {
 public:
  RegionKernel(const KernelQuery& query, bool is_backward)
      : x_(cuda::PlanesOf(is_backward ? query.outputs[0] : query.inputs[0])),
        y_(cuda::PlanesOf(is_backward ? query.inputs[0] : query.outputs[0])),
        dtype_(query.inputs[0].dtype),
        is_backward_(is_backward) {}

 protected:
  Regions regions() const { return {x_, y_, in<float>(input_count() - 1)}; }
  int64_t region_count() const { return y_.images; }
  DType dtype() const { return dtype_; }
  bool is_backward() const { return is_backward_; }
  // f(i) for each element that is made.
  template <class F>
  void Each(const F& f) {
    cuda::ForEach(stream(), is_backward_ ? x_.Count() : y_.Count(), f);
  }

 private:
  cuda::Planes x_;
  cuda::Planes y_;
  DType dtype_;
  bool is_backward_;
};

class RoiPoolKernel final : public RegionKernel {
 public:
  RoiPoolKernel(const KernelQuery& query, bool is_backward)
      : RegionKernel(query, is_backward),
        scale_(is_backward ? 0 : static_cast<float>(query.node.attributes.Float("scale"))) {}
  int64_t scratch_bytes() const override { return is_backward() ? region_count() * int64_t{sizeof(TakenBox)} : 0; }
  void Run() override {
    const Regions s = regions();
    if (is_backward()) {
      cuda::ForEachRow(stream(), s.y.images, s.y.channels * s.y.PlaneSize(),
                       TakenRow{s, in<int32_t>(1), scratch<TakenBox>()});
    }
    cuda::WithFloat(dtype(), [&]<class T>() {
      if (is_backward()) {
        Each(RoiPoolBackwardEach<T>{s, scratch<TakenBox>(), in<T>(0), in<int32_t>(1), out<T>(0)});
      } else {
        Each(RoiPoolEach<T>{s, scale_, in<T>(0), out<T>(0), out<int32_t>(1)});
      }
    });
  }

 private:
  float scale_;
};

class RoiAlignKernel final : public RegionKernel {
 public:
  RoiAlignKernel(const KernelQuery& query, bool is_backward) : RegionKernel(query, is_backward) {
    const Attributes& a = query.node.attributes;
    fields_ = {a.Float("scale"), a.Float("pad_ratio"), a.Int("sampling_ratio"), a.Bool("aligned"), a.Float("margin")};
  }
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      if (is_backward()) {
        Each(RoiAlignBackwardEach<T>{regions(), fields_, in<T>(0), out<T>(0)});
      } else {
        Each(RoiAlignEach<T>{regions(), fields_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  AlignFields fields_;
};

class PsroiPoolKernel final : public RegionKernel {
 public:
  PsroiPoolKernel(const KernelQuery& query, bool is_backward)
      : RegionKernel(query, is_backward), scale_(static_cast<float>(query.node.attributes.Float("scale"))) {}
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      if (is_backward()) {
        Each(PsroiPoolBackwardEach<T>{regions(), scale_, in<T>(0), out<T>(0)});
      } else {
        Each(PsroiPoolEach<T>{regions(), scale_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  float scale_;
};

std::string Refuse(const KernelQuery& query) {
  const TensorType& rois = query.inputs.back();
  if (rois.dtype != DType::kFloat32) return StrCat("it reads regions from float32, not ", rois.ToString());
  return cuda::RefuseUnlessImages(query);
}

}  // namespace

KernelDef CudaPsroiPool() { return cuda::OwnRow<PsroiPoolKernel, false>("psroi_pool", Refuse, cuda::ProposeImages); }
KernelDef CudaPsroiPoolBackward() {
  return cuda::OwnRow<PsroiPoolKernel, true>("psroi_pool_backward", Refuse, cuda::ProposeImages);
}
KernelDef CudaRoiAlign() { return cuda::OwnRow<RoiAlignKernel, false>("roi_align", Refuse, cuda::ProposeImages); }
KernelDef CudaRoiAlignBackward() {
  return cuda::OwnRow<RoiAlignKernel, true>("roi_align_backward", Refuse, cuda::ProposeImages);
}
KernelDef CudaRoiPool() { return cuda::OwnRow<RoiPoolKernel, false>("roi_pool", Refuse, cuda::ProposeImages); }
KernelDef CudaRoiPoolBackward() {
  return cuda::OwnRow<RoiPoolKernel, true>("roi_pool_backward", Refuse, cuda::ProposeImages);
}

}  // namespace moka

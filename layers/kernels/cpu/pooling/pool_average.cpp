// Average pooling with any divisor, and Caffe's mask of max pooling, over plain, channel-blocked and channels-last
// planes.
#include <algorithm>
#include <array>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

// One output position along one axis: the inputs [begin, end) of its window that are not padding, and how many window
// positions the divisor counts.
struct Span {
  int64_t start;  // of the window, perhaps in the padding
  int64_t begin;
  int64_t end;
  float counted;
};

// Depth, height, width of a pooled tensor; axes the tensor does not have are one window over one element.
struct Windows {
  PlaneView x;
  PlaneView y;
  std::array<std::vector<Span>, 3> spans;
  std::array<int64_t, 3> kernel{1, 1, 1};
};

// Windows' bounds are computed once an axis and not once an element: a window is a product of three spans.
Windows ReadWindows(const Attributes& attributes, const TensorType& x, const TensorType& y, bool counts) {
  const Geometry g = PoolGeometry("pooling", attributes);
  Windows w{*ViewPlanes(x), *ViewPlanes(y), {}, {1, 1, 1}};
  for (size_t axis = 0; axis < 3; ++axis) w.spans[axis] = {{0, 0, 1, 1.0F}};
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    const size_t axis = 3 - static_cast<size_t>(g.rank()) + s;
    w.kernel[axis] = g.kernel[s];
    w.spans[axis].clear();
    for (int64_t o = 0; o < y.shape[i + 2]; ++o) {
      const int64_t start = o * g.stride[s] - g.pad_begin[s];
      const int64_t counted = counts ? CountedPositions(g, attributes, i, x.shape[i + 2], o) : 1;
      w.spans[axis].push_back({start, std::max<int64_t>(0, start), std::min(start + g.kernel[s], x.shape[i + 2]),
                               static_cast<float>(counted)});
    }
  }
  return w;
}

// Calls f(d, h, w spans, offset of y's element) for each output position of a plane.
template <class F>
void ForEachWindow(const Windows& w, F&& f) {
  int64_t offset = 0;
  for (const Span& d : w.spans[0]) {
    for (const Span& h : w.spans[1]) {
      for (const Span& c : w.spans[2]) {
        f(d, h, c, offset);
        offset += w.y.inner;
      }
    }
  }
}

// Calls f(offset of x's element) for each element under a window.
template <class F>
void ForEachElement(const PlaneView& x, const Span& d, const Span& h, const Span& w, F&& f) {
  for (int64_t i = d.begin; i < d.end; ++i) {
    for (int64_t j = h.begin; j < h.end; ++j) {
      const int64_t row = (i * x.height + j) * x.width;
      for (int64_t k = w.begin; k < w.end; ++k) f((row + k) * x.inner);
    }
  }
}

// With lanes (channels last or in blocks) the sums of all lanes are made side by side in the output.
void AveragePlane(const Windows& w, const float* x, float* y) {
  const int64_t inner = w.x.inner;
  ForEachWindow(w, [&](const Span& d, const Span& h, const Span& c, int64_t o) {
    const float factor = 1.0F / (d.counted * h.counted * c.counted);
    float* __restrict to = y + o;
    if (inner == 1) {
      float sum = 0;
      ForEachElement(w.x, d, h, c, [&](int64_t i) { sum += x[i]; });
      *to = sum * factor;
      return;
    }
    std::fill_n(to, inner, 0.0F);
    ForEachElement(w.x, d, h, c, [&](int64_t i) {
      const float* __restrict from = x + i;
      for (int64_t lane = 0; lane < inner; ++lane) to[lane] += from[lane];
    });
    for (int64_t lane = 0; lane < inner; ++lane) to[lane] *= factor;
  });
}

// A scatter by one thread a plane, in the order of windows, is deterministic without atomics.
void SpreadPlane(const Windows& w, const float* dy, float* dx) {
  const int64_t inner = w.x.inner;
  std::fill_n(dx, w.x.PlaneCount(), 0.0F);
  ForEachWindow(w, [&](const Span& d, const Span& h, const Span& c, int64_t o) {
    const float factor = 1.0F / (d.counted * h.counted * c.counted);
    const float* __restrict from = dy + o;
    ForEachElement(w.x, d, h, c, [&](int64_t i) {
      float* __restrict to = dx + i;
      for (int64_t lane = 0; lane < inner; ++lane) to[lane] += from[lane] * factor;
    });
  });
}

class AverageKernel final : public BoundKernel {
 public:
  AverageKernel(Windows windows, bool backward) : w_(std::move(windows)), backward_(backward) {}
  void Run() override {
    const float* from = in<float>(0);
    auto* to = out<float>(0);
    const int64_t x_count = w_.x.PlaneCount();
    const int64_t y_count = w_.y.PlaneCount();
    ParallelFor(w_.x.outer, 1 + 8192 / std::max<int64_t>(1, x_count), [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) {
        if (backward_) {
          SpreadPlane(w_, from + p * y_count, to + p * x_count);
        } else {
          AveragePlane(w_, from + p * x_count, to + p * y_count);
        }
      }
    });
  }

 private:
  Windows w_;
  bool backward_;
};

// Positions in the window become Caffe's places in the plane; lanes of padding are 0.
template <class Position>
class MaskKernel final : public BoundKernel {
 public:
  explicit MaskKernel(Windows windows) : w_(std::move(windows)) {}
  void Run() override {
    const auto* argmax = in<Position>(0);
    auto* mask = out<float>(0);
    const int64_t count = w_.y.PlaneCount();
    ParallelFor(w_.y.outer, 1 + 8192 / std::max<int64_t>(1, count), [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) MaskPlane(p, argmax + p * count, mask + p * count);
    });
  }

 private:
  void MaskPlane(int64_t plane, const Position* argmax, float* mask) const {
    const int64_t lanes = w_.y.LanesOf(plane);
    ForEachWindow(w_, [&](const Span& d, const Span& h, const Span& c, int64_t o) {
      std::fill_n(mask + o, w_.y.inner, 0.0F);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t position = argmax[o + lane];
        const int64_t i = d.start + position / (w_.kernel[1] * w_.kernel[2]);
        const int64_t j = h.start + position / w_.kernel[2] % w_.kernel[1];
        const int64_t k = c.start + position % w_.kernel[2];
        mask[o + lane] = static_cast<float>((i * w_.x.height + j) * w_.x.width + k);
      }
    });
  }

  Windows w_;
};

std::string RefusePlanes(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  if (std::string reason = RefuseUnlessSameLayout(query); !reason.empty()) return reason;
  if (!ViewPlanes(query.inputs[0])) return StrCat("it knows no such layout: ", query.inputs[0].ToString());
  return {};
}

// The layout of the input if it is one of planes, otherwise plain.
std::optional<LayoutProposal> ProposePlanes(const KernelQuery& query) {
  if (ViewPlanes(query.inputs[0])) return ProposeFirstLayout(query);
  return std::nullopt;
}

std::unique_ptr<Kernel> MakeMask(const KernelQuery& query) {
  const TensorType x{DType::kFloat32, Shape(query.node.attributes.Get<Ints>("input_shape")), query.inputs[0].layout};
  Windows windows = ReadWindows(query.node.attributes, x, query.outputs[0], false);
  if (query.inputs[0].dtype == DType::kUInt8) return std::make_unique<MaskKernel<uint8_t>>(std::move(windows));
  return std::make_unique<MaskKernel<int32_t>>(std::move(windows));
}

}  // namespace

KernelDef MokaPoolAverage() {
  return {.name = "moka",
          .op = "pool_average",
          .refuse = RefusePlanes,
          .propose = ProposePlanes,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AverageKernel>(
                ReadWindows(query.node.attributes, query.inputs[0], query.outputs[0], true), false);
          },
          .turn = 2};
}

KernelDef MokaPoolAverageBackward() {
  return {.name = "moka",
          .op = "pool_average_backward",
          .refuse = RefusePlanes,
          .propose = ProposePlanes,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AverageKernel>(
                ReadWindows(query.node.attributes, query.outputs[0], query.inputs[0], true), true);
          },
          .turn = 2};
}

KernelDef MokaPoolMaxMask() {
  return {.name = "moka", .op = "pool_max_mask", .refuse = RefusePlanes, .propose = ProposePlanes, .make = MakeMask};
}

}  // namespace moka

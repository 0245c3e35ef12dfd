// Stochastic pooling over plain float32 planes: one pass sums a window, a second finds the element that u chooses.
#include <algorithm>
#include <array>
#include <type_traits>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using Triple = std::array<int64_t, 3>;  // depth, height, width; axes a tensor does not have are 1

struct Windows {
  Triple in{1, 1, 1};
  Triple out{1, 1, 1};
  Triple kernel{1, 1, 1};
  Triple stride{1, 1, 1};
  Triple pad{0, 0, 0};
  int64_t planes = 0;
};

Windows WindowsOf(const KernelQuery& query) {
  const Geometry g = PoolGeometry("pool_stochastic", query.node.attributes);
  const Shape& x = query.inputs[0].shape;
  const Shape& y = query.outputs[0].shape;
  Windows w;
  w.planes = x[0] * x[1];
  for (int i = 0; i < g.rank(); ++i) {
    const auto from = static_cast<size_t>(i);
    const size_t to = 3 - g.kernel.size() + from;
    w.in[to] = x[i + 2];
    w.out[to] = y[i + 2];
    w.kernel[to] = g.kernel[from];
    w.stride[to] = g.stride[from];
    w.pad[to] = g.pad_begin[from];
  }
  return w;
}

// Calls f(offset in the plane, position in the window) until it returns false.
template <class F>
void VisitInside(const Windows& w, const Triple& o, F&& f) {
  Triple start{};
  Triple begin{};
  Triple end{};
  for (size_t i = 0; i < 3; ++i) {
    start[i] = o[i] * w.stride[i] - w.pad[i];
    begin[i] = std::max<int64_t>(0, -start[i]);
    end[i] = std::min(w.kernel[i], w.in[i] - start[i]);
  }
  for (int64_t d = begin[0]; d < end[0]; ++d) {
    for (int64_t h = begin[1]; h < end[1]; ++h) {
      for (int64_t k = begin[2]; k < end[2]; ++k) {
        const int64_t offset = ((start[0] + d) * w.in[1] + start[1] + h) * w.in[2] + start[2] + k;
        if (!f(offset, (d * w.kernel[1] + h) * w.kernel[2] + k)) return;
      }
    }
  }
}

// Zeiler and Fergus, arXiv 1301.3557: an element is chosen with a probability in proportion to its value, which is the
// first whose running sum reaches u times the total.
template <class Position>
class StochasticKernel final : public BoundKernel {
 public:
  explicit StochasticKernel(const Windows& windows) : w_(windows) {}
  void Run() override {
    const int64_t in_plane = w_.in[0] * w_.in[1] * w_.in[2];
    const int64_t out_plane = w_.out[0] * w_.out[1] * w_.out[2];
    ParallelFor(w_.planes, 1 + 8192 / std::max<int64_t>(1, in_plane), [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) {
        OnePlane(in<float>(0) + p * in_plane, in<float>(1) + p * out_plane, out<float>(0) + p * out_plane,
                 out<Position>(1) + p * out_plane);
      }
    });
  }

 private:
  void OnePlane(const float* x, const float* u, float* y, Position* argmax) const {
    int64_t at = 0;
    for (int64_t d = 0; d < w_.out[0]; ++d) {
      for (int64_t h = 0; h < w_.out[1]; ++h) {
        for (int64_t k = 0; k < w_.out[2]; ++k, ++at) OneWindow(x, {d, h, k}, u[at], y[at], argmax[at]);
      }
    }
  }

  // y and argmax are written at every step, so that the last element is taken if rounding keeps the sum below u times
  // the total.
  void OneWindow(const float* x, const Triple& o, float u, float& y, Position& argmax) const {
    double total = 0;
    VisitInside(w_, o, [&](int64_t i, int64_t) {
      total += double{x[i]};
      return true;
    });
    double sum = 0;
    VisitInside(w_, o, [&](int64_t i, int64_t position) {
      sum += double{x[i]};
      y = x[i];
      argmax = static_cast<Position>(position);
      return !(sum >= double{u} * total);
    });
  }

  Windows w_;
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef MokaPoolStochastic() {
  return {.name = "moka",
          .op = "pool_stochastic",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Windows windows = WindowsOf(query);
            if (query.outputs[1].dtype == DType::kUInt8) return std::make_unique<StochasticKernel<uint8_t>>(windows);
            return std::make_unique<StochasticKernel<int32_t>>(windows);
          }};
}

}  // namespace moka

// Bilinear interpolation with aligned corners and its transposed map over plain float32 planes (formulas in
// layers/ops/shape/interpolate.cpp). Two moves a row: two rows are blended into one of the small plane's width,
// which is then read at the columns' taps; backward the same in reverse.
#include <algorithm>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/shape/taps.h"

namespace moka {
namespace {

struct Planes {
  int64_t count = 1;
  int64_t height = 1;  // of the small planes
  int64_t width = 1;
  std::vector<Tap> rows;  // of the large planes
  std::vector<Tap> columns;

  int64_t Small() const { return height * width; }
  int64_t Large() const { return static_cast<int64_t>(rows.size() * columns.size()); }
};

// Rows are blended before columns are read, so that the vertical blend is a loop over neighbours and is made once a row
// and not once for each of two columns.
class InterpolateKernel final : public BoundKernel {
 public:
  InterpolateKernel(Planes planes, bool backward) : p_(std::move(planes)), backward_(backward) {}
  // A row of the small plane's width for each plane.
  int64_t scratch_bytes() const override { return p_.count * p_.width * static_cast<int64_t>(sizeof(float)); }

  void Run() override {
    ParallelFor(p_.count, 1 + 16384 / (p_.Small() + p_.Large()), [this](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) {
        auto* row = scratch<float>() + plane * p_.width;
        if (backward_) {
          Spread(in<float>(0) + plane * p_.Large(), out<float>(0) + plane * p_.Small(), row);
        } else {
          Read(in<float>(0) + plane * p_.Small(), out<float>(0) + plane * p_.Large(), row);
        }
      }
    });
  }

 private:
  // x [height,width] -> y [rows,columns].
  void Read(const float* x, float* y, float* __restrict row) const {
    for (const Tap& tap : p_.rows) {
      const float* low = x + tap.low * p_.width;
      const float* high = x + tap.high * p_.width;
      const auto weight = static_cast<float>(tap.weight);
      for (int64_t j = 0; j < p_.width; ++j) row[j] = low[j] * (1 - weight) + high[j] * weight;
      for (const Tap& column : p_.columns) {
        const auto part = static_cast<float>(column.weight);
        *y++ = row[column.low] * (1 - part) + row[column.high] * part;
      }
    }
  }
  // dy [rows,columns] -> dx [height,width].
  void Spread(const float* dy, float* dx, float* row) const {
    std::fill_n(dx, p_.Small(), 0.0F);
    for (const Tap& tap : p_.rows) {
      std::fill_n(row, p_.width, 0.0F);
      for (const Tap& column : p_.columns) {
        const auto part = static_cast<float>(column.weight);
        row[column.low] += *dy * (1 - part);
        row[column.high] += *dy * part;
        ++dy;
      }
      const auto weight = static_cast<float>(tap.weight);
      float* low = dx + tap.low * p_.width;
      float* high = dx + tap.high * p_.width;
      for (int64_t j = 0; j < p_.width; ++j) low[j] += row[j] * (1 - weight);
      for (int64_t j = 0; j < p_.width; ++j) high[j] += row[j] * weight;
    }
  }

  Planes p_;
  bool backward_;
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

template <bool kBackward>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Shape& small = kBackward ? query.outputs[0].shape : query.inputs[0].shape;
  const Shape& large = kBackward ? query.inputs[0].shape : query.outputs[0].shape;
  return std::make_unique<InterpolateKernel>(Planes{.count = small[0] * small[1],
                                                    .height = small[2],
                                                    .width = small[3],
                                                    .rows = AlignedTaps(small[2], large[2]),
                                                    .columns = AlignedTaps(small[3], large[3])},
                                             kBackward);
}

}  // namespace

KernelDef MokaInterpolate() { return {.name = "moka", .op = "interpolate", .refuse = Refuse, .make = Make<false>}; }

KernelDef MokaInterpolateBackward() {
  return {.name = "moka", .op = "interpolate_backward", .refuse = Refuse, .make = Make<true>};
}

}  // namespace moka

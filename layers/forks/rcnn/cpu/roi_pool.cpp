// Max pooling of regions and its gradient over plain float32. Forward, one thread takes whole (region, channel) planes
// of the output; the bins' ends are found once a region. Backward, whole planes of dx, so nothing is written twice and
// sums run in the regions' order.
#include <algorithm>
#include <utility>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/forks/rcnn/ops/windows.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

struct Sizes {
  int64_t images;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t regions;
  int64_t rows;
  int64_t columns;
};

Sizes SizesOf(const Shape& x, const Shape& y) { return {x[0], x[1], x[2], x[3], y[0], y[2], y[3]}; }

// A kernel that finds regions of images that are not there.
class RegionKernel : public BoundKernel {
 public:
  RegionKernel(const Sizes& sizes, float scale) : s_(sizes), scale_(scale) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t region = std::exchange(wrong_, -1);
    if (region < 0) return {};
    return StrCat("region ", region, " lies in image ", double{wrong_image_}, " but there are ", s_.images);
  }
  // The ends of each region's bins: rows, then columns.
  int64_t scratch_bytes() const override {
    return s_.regions * (s_.rows + s_.columns) * static_cast<int64_t>(sizeof(PixelRange));
  }

  void Run() override {
    const float* rois = in<float>(1);
    for (int64_t r = 0; r < s_.regions; ++r) {
      FindBins(rois + r * 5, Bins(r));
      if (wrong_ >= 0 || IsPaddingRoi(rois[r * 5]) || ImageOfRoi(rois[r * 5], s_.images) >= 0) continue;
      wrong_ = r;
      wrong_image_ = rois[r * 5];
    }
    ParallelFor(s_.regions * s_.channels, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) RunPlane(plane);
    });
  }

 private:
  PixelRange* Bins(int64_t region) const { return scratch<PixelRange>() + region * (s_.rows + s_.columns); }

  void FindBins(const float* roi, PixelRange* bins) const {
    for (int64_t i = 0; i < s_.rows; ++i) bins[i] = RoiPoolRange(roi[2], roi[4], scale_, i, s_.rows, s_.height);
    for (int64_t i = 0; i < s_.columns; ++i) {
      bins[s_.rows + i] = RoiPoolRange(roi[1], roi[3], scale_, i, s_.columns, s_.width);
    }
  }

  void RunPlane(int64_t plane) const {
    const int64_t region = plane / s_.channels;
    const int64_t image = ImageOfRoi(in<float>(1)[region * 5], s_.images);
    auto* y = out<float>(0) + plane * s_.rows * s_.columns;
    auto* argmax = out<int32_t>(1) + plane * s_.rows * s_.columns;
    if (image < 0) {
      std::fill_n(y, s_.rows * s_.columns, 0.0F);
      std::fill_n(argmax, s_.rows * s_.columns, -1);
      return;
    }
    const float* x = in<float>(0) + (image * s_.channels + plane % s_.channels) * s_.height * s_.width;
    const PixelRange* rows = Bins(region);
    for (int64_t i = 0; i < s_.rows; ++i) {
      for (int64_t j = 0; j < s_.columns; ++j) Pool(x, rows[i], rows[s_.rows + j], y++, argmax++);
    }
  }

  void Pool(const float* x, PixelRange rows, PixelRange columns, float* y, int32_t* argmax) const {
    float best = 0;
    int64_t at = -1;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t i = h * s_.width + columns.begin; i < h * s_.width + columns.end; ++i) {
        if (at >= 0 && !(x[i] > best)) continue;
        best = x[i];
        at = i;
      }
    }
    *y = best;
    *argmax = static_cast<int32_t>(at);
  }

  Sizes s_;
  float scale_;
  int64_t wrong_ = -1;
  float wrong_image_ = 0;
};

class BackwardKernel final : public BoundKernel {
 public:
  explicit BackwardKernel(const Sizes& sizes) : s_(sizes) {}

  void Run() override {
    ParallelFor(s_.images * s_.channels, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) RunPlane(plane);
    });
  }

 private:
  void RunPlane(int64_t plane) const {
    const int64_t bins = s_.rows * s_.columns;
    auto* dx = out<float>(0) + plane * s_.height * s_.width;
    std::fill_n(dx, s_.height * s_.width, 0.0F);
    for (int64_t r = 0; r < s_.regions; ++r) {
      if (ImageOfRoi(in<float>(2)[r * 5], s_.images) != plane / s_.channels) continue;
      const int64_t first = (r * s_.channels + plane % s_.channels) * bins;
      const float* dy = in<float>(0) + first;
      const int32_t* argmax = in<int32_t>(1) + first;
      for (int64_t i = 0; i < bins; ++i) {
        if (argmax[i] >= 0) dx[argmax[i]] += dy[i];
      }
    }
  }

  Sizes s_;
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<RegionKernel>(SizesOf(query.inputs[0].shape, query.outputs[0].shape),
                                        static_cast<float>(query.node.attributes.Float("scale")));
}

std::unique_ptr<Kernel> MakeBackward(const KernelQuery& query) {
  return std::make_unique<BackwardKernel>(SizesOf(query.outputs[0].shape, query.inputs[0].shape));
}

}  // namespace

KernelDef MokaRoiPool() { return {.name = "moka", .op = "roi_pool", .refuse = Refuse, .make = Make}; }

KernelDef MokaRoiPoolBackward() {
  return {.name = "moka", .op = "roi_pool_backward", .refuse = Refuse, .make = MakeBackward};
}

}  // namespace moka

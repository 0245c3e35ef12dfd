// ROIAlign and its gradient over plain float32. The places and weights of a bin's samples are found once for a group of
// channels. Forward, a thread takes (region, group) pieces of y; backward, (image, group) pieces of dx, so nothing is
// written twice and sums run in the regions' order.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/forks/rcnn/ops/windows.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

constexpr int64_t kGroup = 32;  // channels

struct Sizes {
  int64_t images;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t regions;
  int64_t rows;
  int64_t columns;

  int64_t groups() const { return (channels + kGroup - 1) / kGroup; }
};

Sizes SizesOf(const Shape& x, const Shape& y) { return {x[0], x[1], x[2], x[3], y[0], y[2], y[3]}; }

AlignFields FieldsOf(const Attributes& attributes) {
  return {.scale = attributes.Float("scale"),
          .pad_ratio = attributes.Float("pad_ratio"),
          .sampling_ratio = attributes.Int("sampling_ratio"),
          .aligned = attributes.Bool("aligned"),
          .margin = attributes.Float("margin")};
}

class AlignKernel : public BoundKernel {
 public:
  AlignKernel(const Sizes& sizes, const AlignFields& fields) : s_(sizes), fields_(fields) {}

 protected:
  const Sizes& sizes() const { return s_; }

  struct Share {  // of a pixel in a bin
    int32_t bin;
    int32_t pixel;
    float weight;
  };

  // Every pixel of every bin of a region. Channels come one after the other: all of them at each pixel would lie a
  // plane apart, in one set of the cache where the plane is a power of two. The thread's next call overwrites the list.
  const std::vector<Share>& SharesOf(const float* roi) const {
    static thread_local std::vector<Share> shares;
    shares.clear();
    const auto rows = AlignAxisOf<float>(roi[2], roi[4], fields_, s_.rows, s_.height);
    const auto columns = AlignAxisOf<float>(roi[1], roi[3], fields_, s_.columns, s_.width);
    for (int64_t bin = 0; bin < s_.rows * s_.columns; ++bin) {
      VisitAlignBin(rows, columns, bin / s_.columns, bin % s_.columns, [&](int64_t pixel, float weight) {
        shares.push_back({static_cast<int32_t>(bin), static_cast<int32_t>(pixel), weight});
      });
    }
    return shares;
  }

 private:
  Sizes s_;
  AlignFields fields_;
};

class ForwardKernel final : public AlignKernel {
 public:
  using AlignKernel::AlignKernel;
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t region = std::exchange(wrong_, -1);
    if (region < 0) return {};
    return StrCat("region ", region, " lies in image ", double{wrong_image_}, " but there are ", sizes().images);
  }

  void Run() override {
    const float* rois = in<float>(1);
    for (int64_t r = 0; wrong_ < 0 && r < sizes().regions; ++r) {
      if (IsPaddingRoi(rois[r * 5]) || ImageOfRoi(rois[r * 5], sizes().images) >= 0) continue;
      wrong_ = r;
      wrong_image_ = rois[r * 5];
    }
    ParallelFor(sizes().regions * sizes().groups(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t piece = begin; piece < end; ++piece) RunPiece(piece / sizes().groups(), piece % sizes().groups());
    });
  }

 private:
  void RunPiece(int64_t region, int64_t group) const {
    const Sizes& s = sizes();
    const int64_t bins = s.rows * s.columns;
    const int64_t plane = s.height * s.width;
    const int64_t first = group * kGroup;
    const int64_t count = std::min(kGroup, s.channels - first);
    auto* y = out<float>(0) + (region * s.channels + first) * bins;
    std::fill_n(y, count * bins, 0.0F);
    const float* roi = in<float>(1) + region * 5;
    const int64_t image = ImageOfRoi(roi[0], s.images);
    if (image < 0) return;
    const float* x = in<float>(0) + (image * s.channels + first) * plane;
    const std::vector<Share>& shares = SharesOf(roi);
    for (int64_t c = 0; c < count; ++c) {
      for (const Share& share : shares) y[c * bins + share.bin] += share.weight * x[c * plane + share.pixel];
    }
  }

  int64_t wrong_ = -1;
  float wrong_image_ = 0;
};

class BackwardKernel final : public AlignKernel {
 public:
  using AlignKernel::AlignKernel;

  void Run() override {
    ParallelFor(sizes().images * sizes().groups(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t piece = begin; piece < end; ++piece) RunPiece(piece / sizes().groups(), piece % sizes().groups());
    });
  }

 private:
  void RunPiece(int64_t image, int64_t group) const {
    const Sizes& s = sizes();
    const int64_t bins = s.rows * s.columns;
    const int64_t plane = s.height * s.width;
    const int64_t first = group * kGroup;
    const int64_t count = std::min(kGroup, s.channels - first);
    auto* dx = out<float>(0) + (image * s.channels + first) * plane;
    std::fill_n(dx, count * plane, 0.0F);
    for (int64_t r = 0; r < s.regions; ++r) {
      const float* roi = in<float>(1) + r * 5;
      if (ImageOfRoi(roi[0], s.images) != image) continue;
      const float* dy = in<float>(0) + (r * s.channels + first) * bins;
      const std::vector<Share>& shares = SharesOf(roi);
      for (int64_t c = 0; c < count; ++c) {
        for (const Share& share : shares) dx[c * plane + share.pixel] += share.weight * dy[c * bins + share.bin];
      }
    }
  }
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<ForwardKernel>(SizesOf(query.inputs[0].shape, query.outputs[0].shape),
                                         FieldsOf(query.node.attributes));
}

std::unique_ptr<Kernel> MakeBackward(const KernelQuery& query) {
  return std::make_unique<BackwardKernel>(SizesOf(query.outputs[0].shape, query.inputs[0].shape),
                                          FieldsOf(query.node.attributes));
}

}  // namespace

KernelDef MokaRoiAlign() { return {.name = "moka", .op = "roi_align", .refuse = Refuse, .make = Make}; }

KernelDef MokaRoiAlignBackward() {
  return {.name = "moka", .op = "roi_align_backward", .refuse = Refuse, .make = MakeBackward};
}

}  // namespace moka

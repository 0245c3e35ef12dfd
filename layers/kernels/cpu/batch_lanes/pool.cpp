// Rows "batch_lanes" of max pooling and of its gradient: between convolutions that want blocks of images.
#include <memory>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/batch_lanes/problem.h"

namespace moka {
namespace {

using batch_lanes::Functions;
using batch_lanes::PoolPlane;

// A plane of one channel of a block of images is independent of all others.
class PoolKernel final : public BoundKernel {
 public:
  PoolKernel(const TensorType& x, const TensorType& y, const Geometry& g, bool is_backward)
      : functions_(*batch_lanes::FunctionsOf(batch_lanes::LanesOf(x))),
        planes_(x.StoredCount() / (x.shape.Count(2, 4) * functions_.lanes)),
        is_backward_(is_backward),
        implementation_(functions_.lanes == 16 ? "avx512" : "avx2") {
    plane_.height = x.shape[2];
    plane_.width = x.shape[3];
    plane_.out_height = y.shape[2];
    plane_.out_width = y.shape[3];
    plane_.kernel_height = g.kernel[0];
    plane_.kernel_width = g.kernel[1];
    plane_.stride_height = g.stride[0];
    plane_.stride_width = g.stride[1];
    plane_.pad_top = g.pad_begin[0];
    plane_.pad_left = g.pad_begin[1];
    // Windows side by side that reach every element leave nothing to clear.
    for (size_t i = 0; i < 2; ++i) {
      const auto axis = static_cast<int>(i) + 2;
      const int64_t reached = y.shape[axis] * g.stride[i] - g.pad_begin[i];
      plane_.clears = plane_.clears || g.stride[i] != g.kernel[i] || reached < x.shape[axis];
    }
  }

  std::string_view implementation() const override { return implementation_; }

  void Run() override {
    const int64_t x_count = plane_.height * plane_.width * functions_.lanes;
    const int64_t y_count = plane_.out_height * plane_.out_width * functions_.lanes;
    ParallelFor(planes_, 1 + 8192 / x_count, [&](int64_t begin, int64_t end, int) {
      PoolPlane p = plane_;
      for (int64_t i = begin; i < end; ++i) {
        if (is_backward_) {
          p.dy = in<float>(0) + i * y_count;
          p.chosen = in<uint8_t>(1) + i * y_count;
          p.dx = out<float>(0) + i * x_count;
          functions_.pool_backward(p);
        } else {
          p.x = in<float>(0) + i * x_count;
          p.y = out<float>(0) + i * y_count;
          p.argmax = out<uint8_t>(1) + i * y_count;
          functions_.pool(p);
        }
      }
    });
  }

 private:
  const Functions& functions_;
  int64_t planes_;
  bool is_backward_;
  std::string implementation_;
  PoolPlane plane_;
};

bool IsBackward(const KernelQuery& query) { return query.node.op->name == "pool_max_backward"; }

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  const TensorType& x = query.inputs[0];
  const int64_t lanes = batch_lanes::LanesOf(x);
  if (lanes == 0) return StrCat("the images of ", x.ToString(), " are not in blocks of 8 or 16");
  if (std::string reason = RefuseUnlessSameLayout(query); !reason.empty()) return reason;
  if (batch_lanes::FunctionsOf(lanes) == nullptr) return batch_lanes::LacksInstructions(lanes);
  const TensorType& argmax = IsBackward(query) ? query.inputs[1] : query.outputs[1];
  if (argmax.dtype != DType::kUInt8) return "windows of more than 255 positions";
  return {};
}

// Only where blocks of images lie already: x, or the argmax as the forward pass left it.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const TensorType& last = query.inputs.back();
  if (last.shape.rank() != 4 || batch_lanes::LanesOf(last) == 0) return {};
  return LayoutProposal{std::vector<Layout>(query.inputs.size(), last.layout),
                        std::vector<Layout>(query.outputs.size(), last.layout)};
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Geometry g = PoolGeometry(query.node.op->name, query.node.attributes);
  const bool is_backward = IsBackward(query);
  const TensorType& x = is_backward ? query.outputs[0] : query.inputs[0];
  const TensorType& y = is_backward ? query.inputs[0] : query.outputs[0];
  return std::make_unique<PoolKernel>(x, y, g, is_backward);
}

}  // namespace

KernelDef BatchLanesPoolMax() {
  return {.name = "batch_lanes", .op = "pool_max", .refuse = Refuse, .propose = Propose, .make = Make};
}

KernelDef BatchLanesPoolMaxBackward() {
  return {.name = "batch_lanes", .op = "pool_max_backward", .refuse = Refuse, .propose = Propose, .make = Make};
}

}  // namespace moka

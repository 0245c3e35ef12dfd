// Rows of max pooling and of its gradient over lanes of 8 or 16: "batch_lanes" between convolutions that want blocks of
// images, "channel_lanes" between those that want blocks of channels. Either way memory is planes of vectors.
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

// A plane, of one channel of a block of images or of a block of channels of one image, is independent of all others.
class PoolKernel final : public BoundKernel {
 public:
  PoolKernel(const TensorType& x, const TensorType& y, const Geometry& g, int64_t lanes, bool is_backward)
      : functions_(*batch_lanes::FunctionsOf(lanes)),
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

// The lanes of a layout that is images channel by channel in blocks of 8 or 16 channels; 0: it is another.
int64_t ChannelLanesOf(const TensorType& x) {
  if (x.shape.rank() != 4) return 0;
  for (const int64_t lanes : {8, 16}) {
    if (x.layout.Name(4) == StrCat("aBcd", lanes, "b")) return lanes;
  }
  return 0;
}

using LanesOf = int64_t (*)(const TensorType& x);

std::string RefuseLanes(const KernelQuery& query, LanesOf lanes_of, std::string_view what) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  const TensorType& x = query.inputs[0];
  const int64_t lanes = lanes_of(x);
  if (lanes == 0) return StrCat("the ", what, " of ", x.ToString(), " are not in blocks of 8 or 16");
  if (std::string reason = RefuseUnlessSameLayout(query); !reason.empty()) return reason;
  if (batch_lanes::FunctionsOf(lanes) == nullptr) return batch_lanes::LacksInstructions(lanes);
  const TensorType& argmax = IsBackward(query) ? query.inputs[1] : query.outputs[1];
  if (argmax.dtype != DType::kUInt8) return "windows of more than 255 positions";
  return {};
}

// Only where such blocks lie already: x, or the argmax as the forward pass left it.
std::optional<LayoutProposal> ProposeLanes(const KernelQuery& query, LanesOf lanes_of) {
  const TensorType& last = query.inputs.back();
  if (last.shape.rank() != 4 || lanes_of(last) == 0) return {};
  return LayoutProposal{std::vector<Layout>(query.inputs.size(), last.layout),
                        std::vector<Layout>(query.outputs.size(), last.layout)};
}

std::unique_ptr<Kernel> MakeLanes(const KernelQuery& query, LanesOf lanes_of) {
  const Geometry g = PoolGeometry(query.node.op->name, query.node.attributes);
  const bool is_backward = IsBackward(query);
  const TensorType& x = is_backward ? query.outputs[0] : query.inputs[0];
  const TensorType& y = is_backward ? query.inputs[0] : query.outputs[0];
  return std::make_unique<PoolKernel>(x, y, g, lanes_of(x), is_backward);
}

KernelDef BatchLanesRow(const char* op) {
  return {.name = "batch_lanes",
          .op = op,
          .refuse = [](const KernelQuery& query) { return RefuseLanes(query, batch_lanes::LanesOf, "images"); },
          .propose = [](const KernelQuery& query) { return ProposeLanes(query, batch_lanes::LanesOf); },
          .make = [](const KernelQuery& query) { return MakeLanes(query, batch_lanes::LanesOf); }};
}

KernelDef ChannelLanesRow(const char* op) {
  return {.name = "channel_lanes",
          .op = op,
          .refuse = [](const KernelQuery& query) { return RefuseLanes(query, ChannelLanesOf, "channels"); },
          .propose = [](const KernelQuery& query) { return ProposeLanes(query, ChannelLanesOf); },
          .make = [](const KernelQuery& query) { return MakeLanes(query, ChannelLanesOf); },
          .turn = 1};
}

}  // namespace

KernelDef BatchLanesPoolMax() { return BatchLanesRow("pool_max"); }
KernelDef BatchLanesPoolMaxBackward() { return BatchLanesRow("pool_max_backward"); }
KernelDef ChannelLanesPoolMax() { return ChannelLanesRow("pool_max"); }
KernelDef ChannelLanesPoolMaxBackward() { return ChannelLanesRow("pool_max_backward"); }

}  // namespace moka

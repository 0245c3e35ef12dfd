// Softmax and its gradient by oneDNN.
#include <vector>

#include "core/text.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/cpu/onednn/onednn.h"

namespace moka {
namespace {

using onednn::MemoryDesc;
using onednn::Place;
using onednn::PrimitiveDesc;

int AxisOf(const KernelQuery& query) {
  return CanonicalAxis(query.node.attributes.Int("axis"), query.inputs[0].shape, "axis");
}

PrimitiveDesc CreateForward(const KernelQuery& query) {
  return onednn::Softmax(onednn::Describe(query.inputs[0]), AxisOf(query));
}

// oneDNN makes the gradient of the result y alone: dx = y (dy - sum of y dy) needs no x.
PrimitiveDesc CreateBackward(const KernelQuery& query) {
  const PrimitiveDesc forward = CreateForward(query);
  if (!forward.ok()) return {};
  return onednn::SoftmaxBackward(onednn::Describe(query.inputs[0]), AxisOf(query), forward);
}

std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const Layout layout = query.inputs[0].layout;
  return LayoutProposal{std::vector<Layout>(query.inputs.size(), layout), {layout}};
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.layout != query.inputs[0].layout) return "inputs and output lie differently";
    }
  }
  const bool is_backward = query.node.op->name == "softmax_backward";
  return (is_backward ? CreateBackward(query) : CreateForward(query)).Refusal();
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const MemoryDesc x = onednn::Describe(query.inputs[0]);
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  if (query.node.op->name == "softmax_backward") {
    kernel->Add(CreateBackward(query), {{DNNL_ARG_DST, x, Place::kInput, 0},
                                        {DNNL_ARG_DIFF_DST, x, Place::kInput, 1},
                                        {DNNL_ARG_DIFF_SRC, x, Place::kOutput, 0}});
  } else {
    kernel->Add(CreateForward(query), {{DNNL_ARG_SRC, x, Place::kInput, 0}, {DNNL_ARG_DST, x, Place::kOutput, 0}});
  }
  return kernel;
}

}  // namespace

KernelDef OnednnSoftmax() {
  return {.name = "onednn", .op = "softmax", .refuse = Refuse, .propose = Propose, .make = Make};
}

KernelDef OnednnSoftmaxBackward() {
  return {.name = "onednn", .op = "softmax_backward", .refuse = Refuse, .propose = Propose, .make = Make};
}

}  // namespace moka

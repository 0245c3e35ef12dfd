// Local response normalisation by oneDNN, forward and backward.
#include <vector>

#include "core/text.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/cpu/onednn/onednn.h"

namespace moka {
namespace {

using onednn::Argument;
using onednn::MemoryDesc;
using onednn::Place;
using onednn::PrimitiveDesc;

// All of a node's tensors of rank >= 3 lie as the first input does; the vectors [C] are plain.
std::optional<LayoutProposal> ProposeFirst(const KernelQuery& query) {
  const Layout layout = query.inputs[0].layout;
  LayoutProposal proposal;
  for (const TensorType& type : query.inputs) proposal.inputs.push_back(type.shape.rank() > 1 ? layout : Layout{});
  for (const TensorType& type : query.outputs) proposal.outputs.push_back(type.shape.rank() > 1 ? layout : Layout{});
  return proposal;
}

// Empty if every tensor of rank >= 2 has the first input's layout.
std::string RefuseMixedLayouts(const KernelQuery& query) {
  const Layout& layout = query.inputs[0].layout;
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.layout != (type.shape.rank() > 1 ? layout : Layout{})) {
        return StrCat("the layout of ", type.ToString(), " is not the one of ", query.inputs[0].ToString());
      }
    }
  }
  return {};
}

struct LrnDescs {
  PrimitiveDesc forward;
  PrimitiveDesc backward;
};

onednn::LrnProblem ReadProblem(const KernelQuery& query) {
  const Attributes& a = query.node.attributes;
  return {.algorithm = a.String("region") == "across" ? dnnl_lrn_across_channels : dnnl_lrn_within_channel,
          .x = onednn::Describe(query.inputs[0]),
          .size = a.Int("size"),
          .alpha = static_cast<float>(a.Float("alpha")),
          .beta = static_cast<float>(a.Float("beta")),
          .k = static_cast<float>(a.Float("k"))};
}

// The kind matters: a forward pass for training leaves a workspace for the gradient.
PrimitiveDesc CreateLrnForward(const KernelQuery& query, dnnl_prop_kind_t kind) {
  return onednn::Lrn(kind, ReadProblem(query));
}

LrnDescs CreateLrnBackward(const KernelQuery& query) {
  LrnDescs descs{CreateLrnForward(query, dnnl_forward_training), {}};
  if (descs.forward.ok()) descs.backward = onednn::LrnBackward(ReadProblem(query), descs.forward);
  return descs;
}

std::string RefuseLrn(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  if (std::string reason = RefuseMixedLayouts(query); !reason.empty()) return reason;
  const Attributes& a = query.node.attributes;
  if (a.Int("size") % 2 == 0) return StrCat("size is even (", a.Int("size"), "), its window is not centred");
  const bool across = a.String("region") == "across";
  const bool is_backward = query.node.op->name == "lrn_backward";
  if (!across && query.inputs[0].shape.rank() != 4) return "a region within channels needs two spatial dimensions";
  if (!across && is_backward) return "oneDNN has the gradient within channels only as a plain loop";
  return is_backward ? CreateLrnBackward(query).backward.Refusal()
                     : CreateLrnForward(query, dnnl_forward_inference).Refusal();
}

std::unique_ptr<Kernel> MakeLrn(const KernelQuery& query) {
  const MemoryDesc x = onednn::Describe(query.inputs[0]);
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateLrnForward(query, dnnl_forward_inference),
              {{DNNL_ARG_SRC, x, Place::kInput, 0}, {DNNL_ARG_DST, x, Place::kOutput, 0}});
  return kernel;
}

// Where oneDNN's gradient needs the workspace of its forward pass, that pass is run again into scratch: the op has no
// hidden tensor, and nothing is kept between the passes.
std::unique_ptr<Kernel> MakeLrnBackward(const KernelQuery& query) {
  const MemoryDesc x = onednn::Describe(query.inputs[0]);
  const LrnDescs descs = CreateLrnBackward(query);
  Require(descs.backward.ok(), "make follows an accepted query");
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0},
                                     {DNNL_ARG_DIFF_DST, x, Place::kInput, 1},
                                     {DNNL_ARG_DIFF_SRC, x, Place::kOutput, 0}};
  const MemoryDesc workspace = descs.backward.md(dnnl_query_workspace_md);
  if (!workspace.is_empty()) {
    const int64_t at_workspace = kernel->Book(workspace.bytes());
    const int64_t at_y = kernel->Book(x.bytes());
    kernel->Add(descs.forward, {{DNNL_ARG_SRC, x, Place::kInput, 0},
                                {DNNL_ARG_DST, x, Place::kScratch, at_y},
                                {DNNL_ARG_WORKSPACE, workspace, Place::kScratch, at_workspace}});
    arguments.push_back({DNNL_ARG_WORKSPACE, workspace, Place::kScratch, at_workspace});
  }
  kernel->Add(descs.backward, std::move(arguments));
  return kernel;
}

}  // namespace

KernelDef OnednnLrn() {
  return {.name = "onednn", .op = "lrn", .refuse = RefuseLrn, .propose = ProposeFirst, .make = MakeLrn};
}

KernelDef OnednnLrnBackward() {
  return {
      .name = "onednn", .op = "lrn_backward", .refuse = RefuseLrn, .propose = ProposeFirst, .make = MakeLrnBackward};
}

}  // namespace moka

// Local response normalisation and batch normalisation (without ReLU) by oneDNN, forward and backward.
#include <vector>

#include "core/text.h"
#include "graph/op.h"
#include "layers/cpu/kernels.h"
#include "layers/cpu/onednn.h"

namespace moka {
namespace {

using onednn::Argument;
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

PrimitiveDesc CreateLrnForward(const KernelQuery& query, dnnl_prop_kind_t kind) {
  const Attributes& a = query.node.attributes;
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  const auto region = a.String("region") == "across" ? dnnl_lrn_across_channels : dnnl_lrn_within_channel;
  dnnl_lrn_desc_t op{};
  const dnnl_status_t status =
      dnnl_lrn_forward_desc_init(&op, kind, region, &x, a.Int("size"), static_cast<float>(a.Float("alpha")),
                                 static_cast<float>(a.Float("beta")), static_cast<float>(a.Float("k")));
  return PrimitiveDesc::Create(status, &op);
}

LrnDescs CreateLrnBackward(const KernelQuery& query) {
  const Attributes& a = query.node.attributes;
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  const auto region = a.String("region") == "across" ? dnnl_lrn_across_channels : dnnl_lrn_within_channel;
  LrnDescs descs{CreateLrnForward(query, dnnl_forward_training), {}};
  if (!descs.forward.ok()) return descs;
  dnnl_lrn_desc_t op{};
  const dnnl_status_t status =
      dnnl_lrn_backward_desc_init(&op, region, &x, &x, a.Int("size"), static_cast<float>(a.Float("alpha")),
                                  static_cast<float>(a.Float("beta")), static_cast<float>(a.Float("k")));
  descs.backward = PrimitiveDesc::Create(status, &op, {}, &descs.forward);
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
  if (!across && is_backward) return "oneDNN 2.6 has the gradient within channels only as a plain loop";
  return is_backward ? CreateLrnBackward(query).backward.Refusal()
                     : CreateLrnForward(query, dnnl_forward_inference).Refusal();
}

std::unique_ptr<Kernel> MakeLrn(const KernelQuery& query) {
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateLrnForward(query, dnnl_forward_inference),
              {{DNNL_ARG_SRC, x, Place::kInput, 0}, {DNNL_ARG_DST, x, Place::kOutput, 0}});
  return kernel;
}

// Where oneDNN's gradient needs the workspace of its forward pass, that pass is run again into scratch: the op has no
// hidden tensor, and nothing is kept between the passes.
std::unique_ptr<Kernel> MakeLrnBackward(const KernelQuery& query) {
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  const LrnDescs descs = CreateLrnBackward(query);
  Require(descs.backward.ok(), "make follows an accepted query");
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0},
                                     {DNNL_ARG_DIFF_DST, x, Place::kInput, 1},
                                     {DNNL_ARG_DIFF_SRC, x, Place::kOutput, 0}};
  const dnnl_memory_desc_t workspace = descs.backward.md(dnnl_query_workspace_md);
  if (!onednn::IsEmpty(workspace)) {
    const int64_t at_workspace = kernel->Book(onednn::BytesOf(workspace));
    const int64_t at_y = kernel->Book(onednn::BytesOf(x));
    kernel->Add(descs.forward, {{DNNL_ARG_SRC, x, Place::kInput, 0},
                                {DNNL_ARG_DST, x, Place::kScratch, at_y},
                                {DNNL_ARG_WORKSPACE, workspace, Place::kScratch, at_workspace}});
    arguments.push_back({DNNL_ARG_WORKSPACE, workspace, Place::kScratch, at_workspace});
  }
  kernel->Add(descs.backward, std::move(arguments));
  return kernel;
}

bool IsAffine(const KernelQuery& query) {
  return query.node.op->name == "batch_norm" ? query.inputs.size() == 3 : query.node.attributes.Bool("affine");
}

PrimitiveDesc CreateBatchNorm(const KernelQuery& query, const PrimitiveDesc* forward) {
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  const auto eps = static_cast<float>(query.node.attributes.Float("eps"));
  const bool affine = IsAffine(query);
  const unsigned flags = affine ? dnnl_use_scale | dnnl_use_shift : 0U;
  dnnl_batch_normalization_desc_t op{};
  const dnnl_status_t status =
      forward == nullptr ? dnnl_batch_normalization_forward_desc_init(&op, dnnl_forward_training, &x, eps, flags)
                         : dnnl_batch_normalization_backward_desc_init(&op, affine ? dnnl_backward : dnnl_backward_data,
                                                                       &x, &x, eps, flags);
  return PrimitiveDesc::Create(status, &op, {}, forward);
}

std::string RefuseBatchNorm(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  if (std::string reason = RefuseMixedLayouts(query); !reason.empty()) return reason;
  const Attributes& a = query.node.attributes;
  if (query.node.op->name == "batch_norm") {
    if (a.Bool("relu")) return "oneDNN's ReLU here keeps a mask the op does not have";
    if (a.Bool("sum")) return "oneDNN adds no residual";
  } else if (!a.String("mask").empty() || a.Int("gradients") > 1 || a.Bool("residual")) {
    return "oneDNN has neither this mask nor sums of gradients";
  }
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("statistics are float32, found ", NameOf(type.dtype));
  }
  const Shape& x = query.inputs[0].shape;
  if (x.rank() > 2 && query.inputs[0].layout.is_plain()) return "oneDNN is slower than Moka's kernel on plain memory";
  const PrimitiveDesc forward = CreateBatchNorm(query, nullptr);
  if (!forward.ok() || query.node.op->name == "batch_norm") return forward.Refusal();
  return CreateBatchNorm(query, &forward).Refusal();
}

std::unique_ptr<Kernel> MakeBatchNorm(const KernelQuery& query) {
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  const dnnl_memory_desc_t channels = onednn::Describe(query.outputs[1]);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0},
                                     {DNNL_ARG_DST, x, Place::kOutput, 0},
                                     {DNNL_ARG_MEAN, channels, Place::kOutput, 1},
                                     {DNNL_ARG_VARIANCE, channels, Place::kOutput, 2}};
  if (IsAffine(query)) {
    arguments.push_back({DNNL_ARG_SCALE, channels, Place::kInput, 1});
    arguments.push_back({DNNL_ARG_SHIFT, channels, Place::kInput, 2});
  }
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateBatchNorm(query, nullptr), std::move(arguments));
  return kernel;
}

std::unique_ptr<Kernel> MakeBatchNormBackward(const KernelQuery& query) {
  const dnnl_memory_desc_t x = onednn::Describe(query.inputs[0]);
  const dnnl_memory_desc_t channels = onednn::Describe(query.inputs[1]);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0},
                                     {DNNL_ARG_MEAN, channels, Place::kInput, 1},
                                     {DNNL_ARG_VARIANCE, channels, Place::kInput, 2},
                                     {DNNL_ARG_DIFF_DST, x, Place::kInput, 3},
                                     {DNNL_ARG_DIFF_SRC, x, Place::kOutput, 0}};
  if (IsAffine(query)) {
    arguments.push_back({DNNL_ARG_SCALE, channels, Place::kInput, 4});
    // The gradient does not depend on the shift, but oneDNN 2.6 refuses to run without one.
    arguments.push_back({DNNL_ARG_SHIFT, channels, Place::kInput, 4});
    arguments.push_back({DNNL_ARG_DIFF_SCALE, channels, Place::kOutput, 1});
    arguments.push_back({DNNL_ARG_DIFF_SHIFT, channels, Place::kOutput, 2});
  }
  const PrimitiveDesc forward = CreateBatchNorm(query, nullptr);
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateBatchNorm(query, &forward), std::move(arguments));
  return kernel;
}

}  // namespace

KernelDef OnednnBatchNorm() {
  return {
      .name = "onednn", .op = "batch_norm", .refuse = RefuseBatchNorm, .propose = ProposeFirst, .make = MakeBatchNorm};
}

KernelDef OnednnBatchNormBackward() {
  return {.name = "onednn",
          .op = "batch_norm_backward",
          .refuse = RefuseBatchNorm,
          .propose = ProposeFirst,
          .make = MakeBatchNormBackward};
}

KernelDef OnednnLrn() {
  return {.name = "onednn", .op = "lrn", .refuse = RefuseLrn, .propose = ProposeFirst, .make = MakeLrn};
}

KernelDef OnednnLrnBackward() {
  return {
      .name = "onednn", .op = "lrn_backward", .refuse = RefuseLrn, .propose = ProposeFirst, .make = MakeLrnBackward};
}

}  // namespace moka

// Convolutions of 8-bit integers and the conversions around them by oneDNN. Activations lie channels last, as its
// kernels like them; a conversion changes the layout in the same pass.
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/cpu/onednn/onednn.h"
#include "layers/kernels/cpu/onednn/onednn_weights.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using onednn::Argument;
using onednn::Place;
using onednn::PrimitiveDesc;

std::vector<float> Floats(const Doubles& values) {
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const double v : values) floats.push_back(static_cast<float>(v));
  return floats;
}

// Conversions --------------------------------------------------------------------------------------------------------

// A reorder with scales multiplies while it copies: by 1/scale to integers, by scale back.
PrimitiveDesc CreateConversion(const KernelQuery& query) {
  std::vector<float> scales = Floats(query.node.attributes.Get<Doubles>("scales"));
  if (query.node.op->name == "quantize") {
    for (float& scale : scales) scale = 1 / scale;
  }
  return onednn::Reorder(onednn::Describe(query.inputs[0]), onednn::Describe(query.outputs[0]), scales);
}

std::string RefuseConversion(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  return CreateConversion(query).Refusal();
}

// [N,H,W,C] for data of rank 3 to 5; anything else plain.
Layout ChannelsLast(const Shape& shape) {
  if (shape.rank() < 3 || shape.rank() > 5) return {};
  std::string name = Layout{}.Name(shape.rank());
  std::rotate(name.begin() + 1, name.begin() + 2, name.end());
  return Layout::Parse(name).Simplified(shape);
}

// Integers lie channels last, real numbers as they lie already.
std::optional<LayoutProposal> ProposeConversion(const KernelQuery& query) {
  const Layout integers = query.node.attributes.Get<Doubles>("scales").size() == 1 ? ChannelsLast(query.inputs[0].shape)
                                                                                   : query.inputs[0].layout;
  if (query.node.op->name == "quantize") return LayoutProposal{{query.inputs[0].layout}, {integers}};
  return LayoutProposal{{query.inputs[0].layout}, {onednn::FavoriteLayout(query.outputs[0])}};
}

std::unique_ptr<Kernel> MakeConversion(const KernelQuery& query) {
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateConversion(query), {{DNNL_ARG_FROM, onednn::Describe(query.inputs[0]), Place::kInput, 0},
                                        {DNNL_ARG_TO, onednn::Describe(query.outputs[0]), Place::kOutput, 0}});
  return kernel;
}

KernelDef ConversionRow(const char* op) {
  return {.name = "onednn", .op = op, .refuse = RefuseConversion, .propose = ProposeConversion, .make = MakeConversion};
}

// Convolution --------------------------------------------------------------------------------------------------------

// The primitive for the query's types, with the weights' layout as given or (any_weights) left to oneDNN.
// Scales, summand and ReLU are post-ops: the 32-bit sums are never written to memory.
PrimitiveDesc CreateConvolution(const KernelQuery& query, bool any_weights) {
  const Attributes& a = query.node.attributes;
  const Geometry g = ConvolutionGeometry(query.node.op->name, a, query.inputs[1].shape);
  const int64_t groups = a.Int("groups");
  const std::optional<onednn::Format> w = any_weights ? onednn::DescribeAnyWeights(query.inputs[1], groups)
                                                      : onednn::DescribeWeights(query.inputs[1], groups);
  if (!w) return {};
  const onednn::ConvolutionProblem p{.x = onednn::Describe(query.inputs[0]),
                                     .w = *w,
                                     .bias = onednn::Describe(query.inputs[2]),
                                     .y = onednn::Describe(query.outputs[0]),
                                     .windows = onednn::ConvolutionWindows(g)};
  onednn::PostOps post_ops;
  post_ops.scales = Floats(a.Get<Doubles>("scales"));
  post_ops.sum = a.Bool("sum");
  post_ops.sum_scale = static_cast<float>(a.Float("sum_scale"));
  if (post_ops.sum) post_ops.sum_type = onednn::DataType(query.inputs[3].dtype);
  post_ops.relu = a.String("activation") == "relu";
  return onednn::Convolution(dnnl_forward_inference, p, post_ops);
}

std::string RefuseConvolution(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  if (!query.inputs[2].layout.is_plain()) return "the bias is not plain";
  if (query.node.attributes.Bool("sum")) {
    const TensorType& summand = query.inputs[3];
    const TensorType& y = query.outputs[0];
    if (summand.layout != y.layout || BytesOf(summand.dtype) != BytesOf(y.dtype)) {
      return StrCat("the summand ", summand.ToString(), " does not lie as the output ", y.ToString());
    }
  }
  const PrimitiveDesc desc = CreateConvolution(query, false);
  if (!desc.ok()) return desc.Refusal();
  // Signed inputs need a correction for each output channel, which oneDNN keeps behind the weights: no Layout can say
  // that.
  return desc.md(dnnl_query_weights_md).format() ? "" : "oneDNN wants weights with sums beside them";
}

// oneDNN is asked with data channels last and weights of its choice; what it chooses for the weights is proposed as a
// layout, so that they are reordered once, when the net is loaded.
std::optional<LayoutProposal> ProposeConvolution(const KernelQuery& query) {
  if (!onednn::RefuseTypes(query).empty()) return {};
  std::vector<TensorType> inputs(query.inputs.begin(), query.inputs.end());
  std::vector<TensorType> outputs(query.outputs.begin(), query.outputs.end());
  inputs[0].layout = ChannelsLast(inputs[0].shape);
  outputs[0].layout = ChannelsLast(outputs[0].shape);
  const PrimitiveDesc desc = CreateConvolution({query.node, inputs, outputs, query.deterministic}, true);
  if (!desc.ok()) return {};
  const std::optional<Layout> w =
      onednn::WeightsLayoutOf(desc.md(dnnl_query_weights_md), query.node.attributes.Int("groups"));
  LayoutProposal proposal{{inputs[0].layout, w.value_or(Layout{}), {}}, {outputs[0].layout}};
  if (inputs.size() > 3) proposal.inputs.push_back(outputs[0].layout);
  return proposal;
}

std::unique_ptr<Kernel> MakeConvolution(const KernelQuery& query) {
  const PrimitiveDesc desc = CreateConvolution(query, false);
  Require(desc.ok(), "make follows an accepted query");
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  if (query.node.attributes.Bool("sum")) kernel->CopyFirst(3);
  kernel->Add(desc, {{DNNL_ARG_SRC, desc.md(dnnl_query_src_md), Place::kInput, 0},
                     {DNNL_ARG_WEIGHTS, desc.md(dnnl_query_weights_md), Place::kInput, 1},
                     {DNNL_ARG_BIAS, onednn::Describe(query.inputs[2]), Place::kInput, 2},
                     {DNNL_ARG_DST, desc.md(dnnl_query_dst_md), Place::kOutput, 0}});
  return kernel;
}

}  // namespace

KernelDef OnednnQuantize() { return ConversionRow("quantize"); }
KernelDef OnednnDequantize() { return ConversionRow("dequantize"); }
KernelDef OnednnConvolutionInt8() {
  return {.name = "onednn",
          .op = "convolution_int8",
          .refuse = RefuseConvolution,
          .propose = ProposeConvolution,
          .make = MakeConvolution};
}

}  // namespace moka

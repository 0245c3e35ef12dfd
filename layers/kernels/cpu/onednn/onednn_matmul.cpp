// Matrix products, single or batched. A transposed operand is a description with the last two axes swapped, so no data
// moves.
#include <utility>
#include <vector>

#include "core/text.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "layers/kernels/cpu/onednn/onednn.h"
#include "layers/kernels/cpu/onednn/product_parts.h"

namespace moka {
namespace {

using onednn::Choice;
using onednn::Format;
using onednn::PrimitiveDesc;
using onednn::ProductDesc;
using Operands = onednn::ProductOperands;

// [..,m,n] seen as [..,n,m], or as it is.
Format Seen(Format format, bool transposed) {
  if (!transposed) return format;
  const int last = format.ndims - 1;
  std::swap(format.dims[last], format.dims[last - 1]);
  std::swap(format.padded_dims[last], format.padded_dims[last - 1]);
  std::swap(format.strides[last], format.strides[last - 1]);
  for (int b = 0; b < format.inner_nblks; ++b) {
    if (format.inner_idxs[b] >= last - 1) format.inner_idxs[b] = 2 * last - 1 - format.inner_idxs[b];
  }
  return format;
}

// Choice::kAny leaves the layout of b to the library, which may then pack it for its kernel.
Operands ReadOperands(const KernelQuery& query, Choice b) {
  const Attributes& attributes = query.node.attributes;
  Operands o;
  o.relu = attributes.String("activation") == "relu";
  o.a = Seen(onednn::Describe(query.inputs[0]), attributes.Bool("transpose_a"));
  o.b = Seen(onednn::Describe(query.inputs[1], b), attributes.Bool("transpose_b"));
  o.y = onednn::Describe(query.outputs[0]);
  o.has_bias = query.inputs.size() > 2;
  if (o.has_bias) {
    // [n] -> [1,..,1,n]
    TensorType bias = query.inputs[2];
    while (bias.shape.rank() < query.outputs[0].shape.rank()) bias.shape = bias.shape.Inserted(0, 1);
    o.bias = onednn::Describe(bias);
  }
  return o;
}

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseFactors(query); !reason.empty()) return reason;
  if (query.inputs.size() > 2 && !query.inputs[2].layout.is_plain()) return "the bias is not plain";
  return ProductDesc(ReadOperands(query, Choice::kFixed)).Refusal();
}

// Bytes that the blocks of b may add to it, and how many times as large they may make it.
constexpr int64_t kLittlePadding = int64_t{1} << 20;
constexpr int64_t kMostPadded = 2;

// The layout that the library packs b in; plain where no Layout says it, and where it would be mostly padding: oneDNN 3
// has blocks of 64 columns for two, which make 4 GiB of 128 MiB.
Layout PackedLayout(const PrimitiveDesc& desc, const TensorType& b, bool transposed) {
  const std::optional<Format> packed = desc.md(dnnl_query_weights_md).format();
  const Layout layout = packed ? onednn::LayoutOf(Seen(*packed, transposed)).value_or(Layout{}) : Layout{};
  const int64_t plain = TensorType{b.dtype, b.shape, {}}.Bytes();
  const int64_t bytes = TensorType{b.dtype, b.shape, layout}.Bytes();
  return bytes - plain > kLittlePadding && bytes / kMostPadded > plain ? Layout{} : layout;
}

// Plain but for b, which takes oneDNN's packed layout if that brings another implementation than the layout it has.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (!onednn::RefuseFactors(query).empty()) return {};
  std::vector<TensorType> inputs(query.inputs.begin(), query.inputs.end());
  LayoutProposal proposal{std::vector<Layout>(inputs.size()), {Layout{}}};
  for (TensorType& type : inputs) type.layout = {};
  inputs[1].layout = query.inputs[1].layout;
  const KernelQuery plain{query.node, inputs, query.outputs, query.deterministic};
  const PrimitiveDesc free = ProductDesc(ReadOperands(plain, Choice::kAny));
  if (!free.ok()) return {};
  const PrimitiveDesc fixed = ProductDesc(ReadOperands(plain, Choice::kFixed));
  const bool keeps = fixed.ok() && fixed.implementation() == free.implementation();
  proposal.inputs[1] =
      keeps ? inputs[1].layout : PackedLayout(free, inputs[1], query.node.attributes.Bool("transpose_b"));
  return proposal;
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Operands o = ReadOperands(query, Choice::kFixed);
  const PrimitiveDesc desc = ProductDesc(o);
  Require(desc.ok(), "make follows an accepted query");
  if (query.deterministic && desc.implementation().starts_with("gemm")) return onednn::MakeInProductParts(o);
  return onednn::MakeProduct(o);
}

}  // namespace

KernelDef OnednnMatmul() {
  return {.name = "onednn", .op = "matmul", .refuse = Refuse, .propose = Propose, .make = Make, .turn = 1};
}

}  // namespace moka

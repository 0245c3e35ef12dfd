// Pooling. The argmax of pool_max is oneDNN's workspace, so forward and backward pass it as an ordinary tensor.
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/onednn/onednn.h"
#include "layers/ops/geometry.h"

namespace moka {
namespace {

using onednn::Argument;
using onednn::MemoryDesc;
using onednn::Place;
using onednn::PrimitiveDesc;

// x and y (or their gradients) of any of the five ops, and max pooling's argmax.
struct Problem {
  TensorType x;
  TensorType y;
  std::optional<TensorType> argmax;
  bool is_backward = false;
  bool is_max = false;
  std::string_view op;
  const Attributes* attributes = nullptr;
};

Problem ReadProblem(const KernelQuery& query) {
  Problem p;
  p.op = query.node.op->name;
  p.attributes = &query.node.attributes;
  p.is_backward = p.op.ends_with("_backward");
  p.is_max = p.op.starts_with("pool_max");
  p.x = p.is_backward ? query.outputs[0] : query.inputs[0];
  p.y = p.is_backward ? query.inputs[0] : query.outputs[0];
  if (p.is_max && p.op != "pool_max_forward") p.argmax = p.is_backward ? query.inputs[1] : query.outputs[1];
  return p;
}

// Whether every window lies inside [-count_begin, input + count_end), or only elements of the input count: the two
// divisors oneDNN has.
std::optional<dnnl_alg_kind_t> AverageKind(const Problem& p, const Geometry& g) {
  const Ints& count_begin = p.attributes->Get<Ints>("count_begin");
  const Ints& count_end = p.attributes->Get<Ints>("count_end");
  bool all_inside = true;
  bool none_counted = true;
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    const int64_t last_end = (p.y.shape[i + 2] - 1) * g.stride[s] - g.pad_begin[s] + g.kernel[s];
    all_inside = all_inside && g.pad_begin[s] <= count_begin[s] && last_end <= p.x.shape[i + 2] + count_end[s];
    none_counted = none_counted && count_begin[s] == 0 && count_end[s] == 0;
  }
  if (all_inside) return dnnl_pooling_avg_include_padding;
  if (none_counted) return dnnl_pooling_avg_exclude_padding;
  return {};
}

// Forward and, if the op is one, backward: the latter's hint is the former.
struct Descs {
  PrimitiveDesc forward;
  PrimitiveDesc backward;
  const PrimitiveDesc& wanted(const Problem& p) const { return p.is_backward ? backward : forward; }
};

// A forward descriptor is needed in any case: it is the hint of the backward one. It is made for training where there
// is an argmax or a gradient, as only then does oneDNN promise a workspace.
Descs CreateDescs(const Problem& p, dnnl_alg_kind_t kind, const Geometry& g) {
  onednn::PoolProblem pool{
      .algorithm = kind, .x = onednn::Describe(p.x), .y = onednn::DescribeAs(p.y, p.x.layout), .windows = {}};
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    pool.windows.strides[i] = g.stride[s];
    pool.windows.kernel[i] = g.kernel[s];
    pool.windows.pad_begin[i] = g.pad_begin[s];
    // Padding that the windows really reach: oneDNN refuses more.
    pool.windows.pad_end[i] = (p.y.shape[i + 2] - 1) * g.stride[s] + g.kernel[s] - g.pad_begin[s] - p.x.shape[i + 2];
  }
  Descs descs;
  const bool needs_workspace = p.argmax.has_value();
  descs.forward = onednn::Pool(needs_workspace || p.is_backward ? dnnl_forward_training : dnnl_forward_inference, pool);
  if (p.is_backward && descs.forward.ok()) descs.backward = onednn::PoolBackward(pool, descs.forward);
  return descs;
}

std::optional<dnnl_alg_kind_t> KindOf(const Problem& p, const Geometry& g) {
  return p.is_max ? std::optional(dnnl_pooling_max) : AverageKind(p, g);
}

// The workspace must be the argmax tensor byte by byte, since other kernels may have written or will read it.
std::string Refuse(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  const Problem p = ReadProblem(query);
  if (p.x.layout.BlockOf(0) > 1) return StrCat("oneDNN has only a slow loop for blocks of images, ", p.x.ToString());
  if (query.deterministic && p.is_backward && !p.is_max && p.x.layout == ChannelsLast(p.x.shape.rank())) {
    return "with AVX2 its gradient of means over channels last depends on the number of threads";
  }
  // 1.5 GB/s in either pass on Zen 3, where "channel_lanes" has 4 to 8.
  if (p.argmax && p.argmax->dtype == DType::kUInt8 && p.x.dtype == DType::kFloat32 && p.x.shape.rank() == 4 &&
      p.x.layout.BlockOf(1) > 1 && !HasAvx512()) {
    return "with AVX2 it writes and reads the places of maxima one by one";
  }
  if (p.argmax && p.argmax->dtype == DType::kInt32 && p.x.dtype == DType::kBFloat16) {
    return "its places in windows of more than 256 bfloat16 values are wrong";
  }
  const Geometry g = PoolGeometry(p.op, *p.attributes);
  const auto kind = KindOf(p, g);
  if (!kind) return "oneDNN divides by all positions of the window or by those inside the input, this op by others";
  const Descs descs = CreateDescs(p, *kind, g);
  const PrimitiveDesc& desc = descs.wanted(p);
  if (!desc.ok() || !p.argmax) return desc.Refusal();
  if (desc.md(dnnl_query_workspace_md) != MemoryDesc(onednn::DescribeAs(*p.argmax, p.x.layout))) {
    return StrCat("oneDNN's workspace is not the argmax ", p.argmax->ToString());
  }
  return {};
}

// Everything lies as x does (in backward: as the forward pass left the argmax, otherwise as dy). A dy of [N,C,1,1] does
// not say whether x was blocked, so dx is made as the convolutions before it will want it.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const TensorType& last = query.inputs.back();
  Layout layout = last.layout;
  if (query.node.op->name.ends_with("_backward") && layout.is_plain() && onednn::RefuseTypes(query).empty()) {
    const Layout favorite = onednn::FavoriteLayout(query.outputs[0]);
    if (favorite.Simplified(last.shape).is_plain()) layout = favorite;
  }
  return LayoutProposal{std::vector<Layout>(query.inputs.size(), layout),
                        std::vector<Layout>(query.outputs.size(), layout)};
}

// oneDNN's names: in the backward pass "dst" is dy and "src" is dx.
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Problem p = ReadProblem(query);
  const Geometry g = PoolGeometry(p.op, *p.attributes);
  const auto kind = KindOf(p, g);
  Require(kind.has_value(), "make follows an accepted query");
  const Descs descs = CreateDescs(p, *kind, g);
  const MemoryDesc x = onednn::Describe(p.x);
  const MemoryDesc y = onednn::DescribeAs(p.y, p.x.layout);
  std::vector<Argument> arguments;
  if (p.is_backward) {
    arguments = {{DNNL_ARG_DIFF_DST, y, Place::kInput, 0}, {DNNL_ARG_DIFF_SRC, x, Place::kOutput, 0}};
  } else {
    arguments = {{DNNL_ARG_SRC, x, Place::kInput, 0}, {DNNL_ARG_DST, y, Place::kOutput, 0}};
  }
  if (p.argmax) {
    const Place place = p.is_backward ? Place::kInput : Place::kOutput;
    arguments.push_back({DNNL_ARG_WORKSPACE, onednn::DescribeAs(*p.argmax, p.x.layout), place, 1});
  }
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(descs.wanted(p), std::move(arguments));
  return kernel;
}

KernelDef Row(const char* op) {
  return {.name = "onednn", .op = op, .refuse = Refuse, .propose = Propose, .make = Make, .turn = 1};
}

}  // namespace

KernelDef OnednnPoolAverage() { return Row("pool_average"); }
KernelDef OnednnPoolAverageBackward() { return Row("pool_average_backward"); }
KernelDef OnednnPoolMax() { return Row("pool_max"); }
KernelDef OnednnPoolMaxForward() { return Row("pool_max_forward"); }
KernelDef OnednnPoolMaxBackward() { return Row("pool_max_backward"); }

}  // namespace moka

// Data movement by oneDNN: reorder between any two layouts, and concat where all parts lie alike.
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "layers/kernels/cpu/onednn/onednn.h"

namespace moka {
namespace {

using onednn::Argument;
using onednn::Place;
using onednn::PrimitiveDesc;

PrimitiveDesc CreateReorder(const KernelQuery& query) {
  return onednn::Reorder(onednn::Describe(query.inputs[0]), onednn::Describe(query.outputs[0]));
}

std::string RefuseReorder(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  return CreateReorder(query).Refusal();
}

std::optional<LayoutProposal> ProposeReorder(const KernelQuery& query) {
  return LayoutProposal{{query.inputs[0].layout}, {Layout::Parse(query.node.attributes.String("layout"))}};
}

std::unique_ptr<Kernel> MakeReorder(const KernelQuery& query) {
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateReorder(query), {{DNNL_ARG_FROM, onednn::Describe(query.inputs[0]), Place::kInput, 0},
                                     {DNNL_ARG_TO, onednn::Describe(query.outputs[0]), Place::kOutput, 0}});
  return kernel;
}

// The axis counts in logical dimensions: the library finds the runs of memory.
PrimitiveDesc CreateConcat(const KernelQuery& query) {
  std::vector<onednn::MemoryDesc> parts;
  for (const TensorType& type : query.inputs) parts.emplace_back(onednn::Describe(type));
  const int axis = CanonicalAxis(query.node.attributes.Int("axis"), query.outputs[0].shape, "axis");
  return onednn::Concat(parts, onednn::Describe(query.outputs[0]), axis);
}

std::string RefuseConcat(const KernelQuery& query) {
  if (std::string reason = onednn::RefuseTypes(query); !reason.empty()) return reason;
  return CreateConcat(query).Refusal();
}

// The layout of the largest part for all, if oneDNN then only copies; otherwise plain.
std::optional<LayoutProposal> ProposeConcat(const KernelQuery& query) {
  if (!onednn::RefuseTypes(query).empty()) return {};
  const auto largest = std::ranges::max_element(query.inputs, {}, [](const TensorType& t) { return t.shape.Count(); });
  std::vector<TensorType> inputs(query.inputs.begin(), query.inputs.end());
  std::vector<TensorType> outputs(query.outputs.begin(), query.outputs.end());
  for (TensorType& type : inputs) type.layout = largest->layout;
  outputs[0].layout = largest->layout;
  const PrimitiveDesc desc = CreateConcat({query.node, inputs, outputs, query.deterministic});
  const bool copies = desc.ok() && desc.implementation().starts_with("simple");
  const Layout layout = copies ? largest->layout : Layout{};
  return LayoutProposal{std::vector<Layout>(inputs.size(), layout), {layout}};
}

std::unique_ptr<Kernel> MakeConcat(const KernelQuery& query) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), onednn::Describe(query.inputs[i]), Place::kInput,
                         static_cast<int64_t>(i)});
  }
  arguments.push_back({DNNL_ARG_DST, onednn::Describe(query.outputs[0]), Place::kOutput, 0});
  auto kernel = std::make_unique<onednn::PrimitiveKernel>();
  kernel->Add(CreateConcat(query), std::move(arguments));
  return kernel;
}

}  // namespace

KernelDef OnednnConcat() {
  return {.name = "onednn",
          .op = "concat",
          .refuse = RefuseConcat,
          .propose = ProposeConcat,
          .make = MakeConcat,
          .turn = 1};
}

KernelDef OnednnReorder() {
  return {.name = "onednn", .op = "reorder", .refuse = RefuseReorder, .propose = ProposeReorder, .make = MakeReorder};
}

}  // namespace moka

#include "layers/cuda/codegen/group.h"

#include <algorithm>

#include "core/text.h"
#include "layers/cuda/codegen/pointwise_text.h"
#include "layers/group_kernel.h"

namespace moka::cuda {
namespace {

// One dimension of the longest member's elements, as they lie; the shared scalars are repeated.
Nest FlatNest(const KernelQuery& query, const GroupSizes& sizes) {
  Nest nest{.extents = {1}, .inputs = {}, .outputs = {}, .index = {1}};
  for (const TensorType& y : query.outputs) nest.extents[0] = std::max(nest.extents[0], y.shape.Count());
  const MemberQuery first(query, sizes, 0);
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    nest.inputs.push_back({first.inputs[i].dtype, {i < sizes.inputs ? 1 : 0}});
  }
  for (const TensorType& y : first.outputs) nest.outputs.push_back({y.dtype, {1}});
  return nest;
}

std::string RefuseMember(const MemberQuery& member, const GroupSizes& sizes, const MemberQuery& first, bool is_random) {
  if (std::string refusal = RefuseGenerated(member.query); !refusal.empty()) return refusal;
  const Layout& layout = member.outputs[0].layout;
  const auto lies_so = [&](const TensorType& type) { return type.layout == layout; };
  const auto own_end = member.inputs.begin() + static_cast<std::ptrdiff_t>(sizes.inputs);
  if (!std::all_of(member.inputs.begin(), own_end, lies_so) || !std::ranges::all_of(member.outputs, lies_so)) {
    return StrCat("a member's tensors lie differently from ", member.outputs[0].ToString());
  }
  if (is_random && !layout.is_plain()) return "random numbers are made for plain members";
  for (size_t o = 0; o < member.outputs.size(); ++o) {
    if (member.outputs[o].dtype != first.outputs[o].dtype) return "the members' results have different types";
  }
  return {};
}

}  // namespace

GeneratedGroup GenerateGroup(const std::string& name, const KernelQuery& query, Alignment alignment) {
  const GroupSizes sizes(query.node.attributes);
  const Nest nest = FlatNest(query, sizes);
  const int width = alignment == Alignment::kVectors ? VectorWidth(nest) : 1;
  const Expression expression = Expression::Parse(query.node.attributes.Get<Strings>("exprs"));
  return {GroupText(name, expression, nest, width), width};
}

std::string RefuseGroup(const KernelQuery& query) {
  const GroupSizes sizes(query.node.attributes);
  const bool is_random = Expression::Parse(query.node.attributes.Get<Strings>("exprs")).IsRandom();
  const MemberQuery first(query, sizes, 0);
  for (size_t m = 0; m < sizes.members; ++m) {
    const MemberQuery member(query, sizes, m);
    if (std::string refusal = RefuseMember(member, sizes, first, is_random); !refusal.empty()) return refusal;
  }
  return {};
}

GroupTables TablesOf(const Attributes& attributes, int width, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) {
  const GroupSizes sizes(attributes);
  GroupTables tables;
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<Tensor> own = sizes.InputsOf(m, inputs);
    const std::vector<Tensor> results = sizes.OutputsOf(m, outputs);
    for (const Tensor& x : own) tables.members.push_back(reinterpret_cast<uintptr_t>(x.raw()));
    for (const Tensor& y : results) tables.members.push_back(reinterpret_cast<uintptr_t>(y.raw()));
    const int64_t count = results[0].shape().Count();
    tables.members.push_back(static_cast<uint64_t>(count));
    for (int64_t first = 0; first < count; first += ChunkElements(width)) {
      tables.chunks.push_back(m);
      tables.chunks.push_back(static_cast<uint64_t>(first));
    }
  }
  return tables;
}

}  // namespace moka::cuda

// A table with an entry for each block of threads names its member and the chunk of it. Hundreds of small updates are
// then one launch; a launch each would take longer than their work.
#include "layers/kernels/cuda/codegen/group.h"

#include <algorithm>

#include "core/text.h"
#include "layers/kernels/cuda/codegen/pointwise_text.h"
#include "layers/kernels/cuda/codegen/reduce_text.h"
#include "layers/kernels/group_kernel.h"

namespace moka::cuda {
namespace {

// Elements of each member.
std::vector<int64_t> CountsOf(const KernelQuery& query, const GroupSizes& sizes) {
  std::vector<int64_t> counts;
  for (size_t m = 0; m < sizes.members; ++m) counts.push_back(query.inputs[m * sizes.inputs].shape.Count());
  return counts;
}

// One dimension of the longest member's elements, as they lie; scalars and sums are repeated.
Nest FlatNest(const KernelQuery& query, const GroupSizes& sizes) {
  Nest nest{.extents = {1}, .inputs = {}, .outputs = {}, .index = {1}};
  for (const int64_t count : CountsOf(query, sizes)) nest.extents[0] = std::max(nest.extents[0], count);
  const MemberQuery first(query, sizes, 0);
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    nest.inputs.push_back({first.inputs[i].dtype, {i < sizes.tensors ? 1 : 0}});
  }
  for (const TensorType& y : first.outputs) nest.outputs.push_back({y.dtype, {IsReduction(query) ? 0 : 1}});
  return nest;
}

// Members are seen as flat memory, so all tensors of one must lie alike, and a random number's index must be the place
// in memory.
std::string RefuseMember(const MemberQuery& member, const GroupSizes& sizes, const MemberQuery& first, bool is_random) {
  if (std::string refusal = RefuseGenerated(member.query); !refusal.empty()) return refusal;
  const Layout& layout = member.inputs[0].layout;
  const auto lies_so = [&](const TensorType& type) { return type.layout == layout; };
  const auto tensors_end = member.inputs.begin() + static_cast<std::ptrdiff_t>(sizes.tensors);
  const bool lie_alike = std::all_of(member.inputs.begin(), tensors_end, lies_so) &&
                         (IsReduction(member.query) || std::ranges::all_of(member.outputs, lies_so));
  if (!lie_alike) return StrCat("a member's tensors lie differently from ", member.inputs[0].ToString());
  if (is_random && !layout.is_plain()) return "random numbers are made for plain members";
  for (size_t o = 0; o < member.outputs.size(); ++o) {
    if (member.outputs[o].dtype != first.outputs[o].dtype) return "the members' results have different types";
  }
  return {};
}

}  // namespace

// One text serves all members: what differs (addresses, counts) is in the table.
GeneratedGroup GenerateGroup(const std::string& name, const KernelQuery& query, Alignment alignment) {
  const GroupSizes sizes(query.node.attributes);
  const Nest nest = FlatNest(query, sizes);
  const int width = alignment == Alignment::kVectors ? VectorWidth(nest) : 1;
  const Expression expression = Expression::Parse(query.node.attributes.Get<Strings>("exprs"));
  if (!IsReduction(query)) return {GroupText(name, expression, nest, width), std::nullopt, width, 0};
  int64_t chunks = 0;
  for (const int64_t count : CountsOf(query, sizes))
    chunks += (count + ChunkElements(width) - 1) / ChunkElements(width);
  return {GroupSumText(name, expression, nest, width), GroupSumJoinerText(name + "_2", expression, nest), width,
          chunks * (nest.outputs[0].dtype == DType::kFloat64 ? 8 : 4)};
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

// The words are laid out as the structs Member and Chunk of the text: pointers of the operands, then count, first chunk
// and chunks; member and first element.
GroupTables TablesOf(const Attributes& attributes, int width, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) {
  const GroupSizes sizes(attributes);
  GroupTables tables;
  for (size_t m = 0; m < sizes.members; ++m) {
    const std::vector<Tensor> own = sizes.InputsOf(m, inputs);
    const std::vector<Tensor> results = sizes.OutputsOf(m, outputs);
    for (const Tensor& x : own) tables.members.push_back(reinterpret_cast<uintptr_t>(x.raw()));
    for (const Tensor& y : results) tables.members.push_back(reinterpret_cast<uintptr_t>(y.raw()));
    const int64_t count = own[0].shape().Count();
    const auto first_chunk = static_cast<uint64_t>(tables.blocks());
    for (int64_t first = 0; first < count; first += ChunkElements(width)) {
      tables.chunks.push_back(m);
      tables.chunks.push_back(static_cast<uint64_t>(first));
    }
    const uint64_t chunks = static_cast<uint64_t>(tables.blocks()) - first_chunk;
    tables.members.insert(tables.members.end(), {static_cast<uint64_t>(count), first_chunk, chunks});
  }
  return tables;
}

}  // namespace moka::cuda

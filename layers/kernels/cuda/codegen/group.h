// pointwise_group and reduce_group as generated kernels: blocks of threads are given to chunks of members by tables in
// the device's memory, so members of any counts fill a GPU together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "layers/kernels/cuda/codegen/generate.h"

namespace moka::cuda {

struct GeneratedGroup {
  KernelText kernel;                 // a block a chunk
  std::optional<KernelText> joiner;  // of sums: a block a member, once every chunk is summed
  int width = 1;                     // elements a thread
  int64_t scratch_bytes = 0;         // of the chunks' sums
};

// Requires: RefuseGroup is silent.
GeneratedGroup GenerateGroup(const std::string& name, const KernelQuery& query, Alignment alignment);
// Empty, or why not: a member's tensors lie alike, and all members have the same types.
std::string RefuseGroup(const KernelQuery& query);

// The arguments of the kernels, tables of words of 8 bytes; where there is a joiner the scratch follows them.
struct GroupTables {
  std::vector<uint64_t> members;
  std::vector<uint64_t> chunks;
  int64_t blocks() const { return static_cast<int64_t>(chunks.size() / 2); }
};
GroupTables TablesOf(const Attributes& attributes, int width, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs);

}  // namespace moka::cuda

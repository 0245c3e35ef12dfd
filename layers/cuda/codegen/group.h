// pointwise_group as one generated kernel: blocks of threads are given to chunks of members by tables in the device's
// memory, so members of any counts fill a GPU together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "layers/cuda/codegen/generate.h"

namespace moka::cuda {

struct GeneratedGroup {
  KernelText kernel;
  int width = 1;  // elements a thread
};

// Requires: RefuseGroup is silent.
GeneratedGroup GenerateGroup(const std::string& name, const KernelQuery& query, Alignment alignment);
// Empty, or why not: a member's tensors lie alike, and all members have the same types.
std::string RefuseGroup(const KernelQuery& query);

// The two arguments of the kernel, tables of words of 8 bytes.
struct GroupTables {
  std::vector<uint64_t> members;
  std::vector<uint64_t> chunks;
  int64_t blocks() const { return static_cast<int64_t>(chunks.size() / 2); }
};
GroupTables TablesOf(const Attributes& attributes, int width, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs);

}  // namespace moka::cuda

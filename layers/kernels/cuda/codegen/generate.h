// From a node to its generated kernels: pointwise and reduce_sum.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "graph/kernel.h"
#include "layers/kernels/cuda/codegen/nest.h"
#include "layers/kernels/cuda/codegen/prelude.h"

namespace moka::cuda {

// The multiples that the addresses of a node's tensors are known to be.
enum class Alignment : uint8_t {
  kVectors,   // multiples of 16 bytes
  kElements,  // multiples of their elements' size
};

// Where an argument comes from.
struct ArgumentSource {
  enum class Kind : uint8_t { kInput, kOutput, kScratch, kNumber };
  Kind kind = Kind::kInput;
  int64_t number = 0;  // of the input or output; the number itself
};

struct GeneratedStage {
  KernelText kernel;
  int64_t blocks = 0;
  std::vector<ArgumentSource> arguments;
};

struct Generated {
  std::vector<GeneratedStage> stages;  // run one after another; none where there are no elements
  int64_t scratch_bytes = 0;
};

// Requires: RefuseGenerated is silent. Sums of nothing have no stages: their outputs are zero.
Generated Generate(const std::string& name, const KernelQuery& query, Alignment alignment);
// Empty, or why not.
std::string RefuseGenerated(const KernelQuery& query);
// The layout of the first input of the full shape for all of that shape, the others plain.
std::optional<LayoutProposal> ProposeGenerated(const KernelQuery& query);

// Whether a sum is asked for: by reduce_sum, or by a member of reduce_group.
bool IsReduction(const KernelQuery& query);

// The expression of a node's kernel and the nest that it goes through.
struct NodeNest {
  Expression expression;
  Nest nest;
};
NodeNest NestOf(const KernelQuery& query);

// The words of a kernel's Arguments, 8 bytes each.
std::vector<uint64_t> ArgumentWords(const GeneratedStage& stage, std::span<const Tensor> inputs,
                                    std::span<const Tensor> outputs, std::byte* scratch);

}  // namespace moka::cuda

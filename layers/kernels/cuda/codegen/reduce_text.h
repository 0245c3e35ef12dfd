// Generated kernels of reduce_sum. The dimensions of the nest are kept or summed; a block of threads is divided into
// `across` neighbouring sums and `lanes` that share the terms of each:
//   rows     the last dimension is summed: a thread reads vectors of one sum's terms
//   columns  the last dimension is kept: a thread reads vectors of several sums' terms (channels-last channels)
// The lanes' sums are joined by halves; where sums are few and long, their terms are cut into chunks, whose sums a
// second kernel joins. Every order is fixed by sizes alone.
#pragma once

#include <vector>

#include "layers/kernels/cuda/codegen/nest.h"
#include "layers/kernels/cuda/codegen/prelude.h"

namespace moka::cuda {

struct ReduceStage {
  KernelText kernel;  // arguments: the inputs, the output (the partial sums where another stage follows)
  int64_t blocks = 0;
};

struct ReducePlan {
  std::vector<ReduceStage> stages;  // one or two
  int64_t partial_count = 0;        // numbers between the stages, of float64 where the output is, else float32
};

// The output's strides are 0 along the summed dimensions; without `may_take_vectors` inputs are read an element at a
// time. The stages are named `name`, `name`_2. Requires: elements.
ReducePlan PlanReduceSum(const std::string& name, const Expression& expression, const Nest& nest,
                         bool may_take_vectors);

// The sums of the members of a group (pointwise_text.h has their tables): a block sums a chunk, then a block of the
// joiner each member's chunks. Arguments of both: the two tables and the chunks' sums. `width`: elements a thread.
KernelText GroupSumText(std::string name, const Expression& expression, const Nest& nest, int width);
KernelText GroupSumJoinerText(std::string name, const Expression& expression, const Nest& nest);

}  // namespace moka::cuda

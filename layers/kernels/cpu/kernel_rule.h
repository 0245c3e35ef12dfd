// Estimates which kernel of a convolution or product is the fastest on a CPU, by its shapes alone. Unlike times, which
// differ from hour to hour and on a busy machine are worth little, a rule chooses the same kernels in every process,
// for any number of threads and under any load, so results do not depend on them (KernelSearch::Rule). What it foregoes
// against times taken on an idle machine is in docs/reliability.md.
#pragma once

#include <string_view>

#include "core/types.h"
#include "graph/kernel.h"

namespace moka {

// Milliseconds of one thread with AVX-512, good for comparing rows only (ratios with AVX2 are alike); infinite for a
// library's plain loops. Requires: the row accepts the query.
double MillisecondsByRule(const KernelDef& row, const KernelQuery& query);

// Operations that a convolution or product by this row does in a millisecond of such a thread.
double FlopsPerMs(std::string_view row, DType factors);

}  // namespace moka

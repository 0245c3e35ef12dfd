// The catalogue every graph of Moka is built with: all ops and all kernels of this build.
#pragma once

#include <string_view>
#include <vector>

#include "graph/kernel.h"
#include "graph/op.h"

namespace moka {

// The rows of this build in no order that matters (tools/cmake/moka_rows.cmake).
std::vector<OpDef> OpRows();
std::vector<KernelDef> KernelRows();

// Made at the first call; lives until the process ends. Any thread may call it.
const Catalog& StandardCatalog();
// A row of a kernel on the CPU by its name. Requires: there is one.
const KernelDef& KernelNamed(std::string_view op, std::string_view name);

}  // namespace moka

// The catalogue every graph of Moka is built with: all ops and all kernels of this build.
#pragma once

#include "graph/op.h"

namespace moka {

// Made at the first call; lives until the process ends. Any thread may call it.
const Catalog& StandardCatalog();

}  // namespace moka

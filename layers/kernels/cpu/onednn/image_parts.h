// Gradients that are sums over images, with one order of the sums for any number of threads. A library that cuts the
// images among its threads adds as many partial sums as there are threads, so the last bits of its result depend on
// them. Here the images are cut by the shapes alone; each part is a kernel for one thread, the parts run side by side
// and their results are added in order, in float32 whatever is read, and rounded once where the outputs are half.
#pragma once

#include <memory>
#include <string>

#include "graph/kernel.h"

namespace moka {

// A row's functions for the whole of the images.
struct WholeImages {
  std::string (*refuse)(const KernelQuery&);
  std::unique_ptr<Kernel> (*make)(const KernelQuery&);
};

// Parts that a node's images are cut into: from the shapes alone. Requires: every input's first axis counts images, the
// outputs are sums over them, and the last input is dy [N,K,spatial..].
int64_t ImagePartsOf(const KernelQuery& query);

// As the row would, of a part, whose outputs are float32 (Widened).
std::string RefuseInImageParts(const KernelQuery& query, const WholeImages& row);
std::unique_ptr<Kernel> MakeInImageParts(const KernelQuery& query, const WholeImages& row);

}  // namespace moka

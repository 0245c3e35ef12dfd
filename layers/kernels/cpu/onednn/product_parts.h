// Products of matrices whose sums have one order for any number of threads. oneDNN's kernels over plain operands
// ("gemm") cut rows, columns and sums by the threads they find, and the last bits follow the cut. Here a product is cut
// by its sizes alone: each part of y is a product of its own, for one thread, and the parts run side by side.
#pragma once

#include <memory>

#include "graph/kernel.h"
#include "layers/kernels/cpu/onednn/onednn.h"

namespace moka::onednn {

// A product as oneDNN sees it: y [..,m,n] = a [..,m,k] b [..,k,n] + bias [1,..,1,n], then a ReLU.
struct ProductOperands {
  Format a;
  Format b;
  Format bias;
  Format y;
  bool has_bias = false;
  bool relu = false;
};

PrimitiveDesc ProductDesc(const ProductOperands& o);

// The product as a kernel of oneDNN's. Requires: ProductDesc(o).ok().
std::unique_ptr<Kernel> MakeProduct(const ProductOperands& o);
// The product in parts. Requires: ProductDesc(o).ok(); operands without inner blocks.
std::unique_ptr<Kernel> MakeInProductParts(const ProductOperands& o);

}  // namespace moka::onednn

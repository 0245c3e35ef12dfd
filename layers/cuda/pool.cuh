// What the kernels of pooling share.
#pragma once

#include "layers/bound_kernel.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/launch.cuh"
#include "layers/cuda/planes.cuh"
#include "layers/cuda/refuse.h"
#include "layers/cuda/types.cuh"
#include "layers/ops/geometry.h"

namespace moka::cuda {

// What pooling x to y is.
struct Pool {
  Planes x;
  Planes y;
  Windows windows;
};

// The types of x and y, whichever is the input.
inline Pool PoolOf(const KernelQuery& query, const TensorType& x, const TensorType& y) {
  return {PlanesOf(x), PlanesOf(y), WindowsOf(PoolGeometry(query.node.op->name, query.node.attributes))};
}

}  // namespace moka::cuda

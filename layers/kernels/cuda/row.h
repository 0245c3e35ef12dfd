// The row of a kernel of Moka's own for GPUs.
#pragma once

#include <memory>

#include "graph/kernel.h"

namespace moka::cuda {

// Made as K(query, kMore...).
template <class K, auto... kMore>
KernelDef OwnRow(const char* op, decltype(KernelDef::refuse) refuse, decltype(KernelDef::propose) propose = nullptr) {
  return {
      .name = "moka",
      .op = op,
      .device = DeviceKind::kCuda,
      .refuse = refuse,
      .propose = propose,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<K>(query, kMore...); }};
}

}  // namespace moka::cuda

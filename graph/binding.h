// Choosing a kernel for each node, and the reference kernel that is always there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/kernel.h"
#include "graph/op.h"

namespace moka {

// A node with its kernel.
struct Binding {
  NodeId node = kNoId;
  std::string kernel;                 // row name, "reference" when no row accepted, "alias"
  std::unique_ptr<Kernel> object;     // null for aliases
  std::vector<std::string> refusals;  // "onednn: sentence", for --explain
};

// The first kernel that accepts. Falling back to the reference is announced once an op. Errors: kUnavailable when
// layouts leave no kernel at all, with every refusal.
Binding BindKernel(const Graph& graph, NodeId node, DeviceKind device, bool deterministic);

}  // namespace moka

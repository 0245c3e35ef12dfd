// Choosing a kernel for each node, and the reference kernel that is always there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/kernel.h"
#include "graph/op.h"
#include "graph/program.h"

namespace moka {

// A node with its kernel.
struct Binding {
  NodeId node = kNoId;
  std::string kernel;              // row name, "converted_" and that where half types are widened for it, "reference",
                                   // of a GPU's program "cpu_" and one of those; "alias"
  std::unique_ptr<Kernel> object;  // null for aliases without kernels
  std::vector<std::string> refusals;  // "onednn: sentence", for --explain
};

// The rows of an op in the order a program tries them: those it prefers, then as listed, without those it disables.
std::vector<const KernelDef*> UsableKernels(const Catalog& catalog, std::string_view op, const CompileOptions& options);

// Returns the question that a row is asked about the node under these options.
KernelQuery QueryOf(const Node& node, std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                    const CompileOptions& options);

// The first of these rows that accepts a node as it is typed; null if none does.
const KernelDef* FirstRow(const Graph& graph, NodeId node, const CompileOptions& options);

// Whether the options want the rows of this node timed against each other.
bool IsSearched(const Node& node, const CompileOptions& options);

// The first row that accepts, or the fastest where a search is given. Where none does half types are
// widened to float32 for a row (CPU); else the node runs by the reference, in a GPU's program by a kernel of the CPU;
// both are announced once an op. Errors: kUnavailable when layouts leave no
// kernel at all, with every refusal.
Binding BindKernel(const Graph& graph, NodeId node, const CompileOptions& options);

}  // namespace moka

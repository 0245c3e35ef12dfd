// A pass is a function over the graph: pure on it, idempotent, skippable. One runner skips, times, verifies and shows
// every pass, so a pass contains only its idea.
#pragma once

#include <string_view>
#include <vector>

#include "graph/program.h"

namespace moka {

struct PassContext {
  const CompileOptions& options;
  const ParameterStore& store;
  int64_t* visits = nullptr;    // where a pass adds up the nodes and uses it looked at, if anybody asks
  bool runs_elsewhere = false;  // another program runs the graph: how fast kernels are here says nothing

  void Count(int64_t looked_at) const {
    if (visits != nullptr) *visits += looked_at;
  }
};

struct Pass {
  std::string_view name;
  std::string_view doc;  // Requires / Ensures
  // Returns whether the graph changed.
  bool (*run)(Graph&, const PassContext&) = nullptr;
  // An optional pass may be disabled by name; the others carry meaning and may not.
  bool optional = true;
};

// The passes Compile runs, in order.
const std::vector<Pass>& CompilePasses();

// Runs one pass list; appends a report for each. Errors: kUsage for a disabled pass that is unknown or not optional.
void RunPasses(const std::vector<Pass>& passes, Graph& graph, const PassContext& context,
               std::vector<PassReport>& reports);

// Before differentiation: joins forward nodes into ops whose gradient is cheaper (batch norm + scale + ReLU,
// convolution + ReLU). Requires: nothing. Ensures: the same outputs; a joined value had one reader and was no output.
bool ComposeForward(Graph& graph, int64_t* visits = nullptr);

// Before differentiation: strided convolutions by windows of one element that read the same positions of a value (a
// residual unit's branch and its shortcut) share a copy of them; a batch norm with a residual that nothing else reads
// makes no others. Ensures: the same outputs.
bool ShareSubsamples(Graph& graph);

}  // namespace moka

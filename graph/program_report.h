// Reports on a compiled program: its steps, the passes that made it and the memory that it takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/types.h"

namespace moka {

// One step as `moka time` and --dry-run print it.
struct StepReport {
  std::string layer;                // `layers` as one text, for lines and traces
  std::vector<std::string> layers;  // those that a node which joins several does the work of, or the one
  std::string op;
  std::string pass;            // who made the node ("" for the layers themselves)
  std::string kernel;          // kernel row
  std::string implementation;  // inside it
  std::string types;           // "float32[..] <- float32[..], ..."
  int64_t flops = 0;
  DType factors = DType::kFloat32;    // what a product multiplies: of its half input, or of its first
  int64_t bytes = 0;                  // read and written
  bool is_constant = false;           // runs in RefreshConstants only
  std::vector<std::string> refusals;  // of kernels listed before the one that was taken: their names and reasons
};

struct PassReport {
  std::string name;
  double ms = 0;
  int nodes_before = 0;
  int nodes_after = 0;
  int64_t visits = 0;  // nodes and uses looked at by a pass that rewrites; near-linear in the nodes, on any machine
  bool changed = false;
  bool skipped = false;
};

struct MemoryReport {
  int64_t arena_bytes = 0;     // planned peak of activations, gradients and scratch
  int64_t bound_bytes = 0;     // liveness lower bound of the same order: the largest sum of bytes alive at one step
  int64_t constant_bytes = 0;  // folded and packed weights
  int64_t input_bytes = 0;
  int64_t state_bytes = 0;                               // what this program's states hold in the store
  std::vector<std::pair<std::string, int64_t>> largest;  // largest values alive at the peak: name and bytes
};

struct ProgramReport {
  std::vector<PassReport> passes;
  MemoryReport memory;
  std::string text;  // the graph as it was frozen, with kernels and layouts
};

// The line of the i-th step in a program's text.
std::string StepLine(const StepReport& step, size_t i);

// Everything decided about a layer: kernels chosen and refused (with reasons), reorders, fusions. Errors: kUsage with
// the nearest name if there is no such layer.
std::string ExplainLayer(std::span<const StepReport> steps, std::string_view layer);

}  // namespace moka
